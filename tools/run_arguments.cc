#include "tools/run_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "runtime/session/check_batch.h"
#include "runtime/session/kv_cache.h"
#include "runtime/session/sample.h"
#include "tools/flags.h"

namespace mkc {
namespace {

constexpr uint32_t kMaxCount = 1u << 30;
constexpr uint64_t kMaxMs = 1'000'000'000;  // eleven days

Status check_sampling_flags(const SamplingFlags& flags) {
  const Status status = mkrt::check_sampling(sampling_of(flags, {}));
  if (status.ok()) return {};
  std::string message = status.error().message;
  std::replace(message.begin(), message.begin() + static_cast<ptrdiff_t>(message.find(':')), '_', '-');
  return Error{"--" + message};
}

}  // namespace

void add_sampling_options(CLI::App& command, SamplingFlags& s) {
  add_number(command, "--temperature", s.temperature, "0: greedy; default: generation_config.json's, or 0");
  add_integer<uint32_t>(command, "--top-k", s.top_k, 0, UINT32_MAX,
                        "keep the K likeliest tokens; 0: all; default: generation_config.json's, or 0");
  add_number(command, "--top-p", s.top_p,
             "keep the likeliest tokens up to this share; default: generation_config.json's, or 1: all");
  add_number(
      command, "--min-p", s.min_p,
      "drop tokens less likely than this times the likeliest; default: generation_config.json's, or 0");
  add_number(command, "--repetition-penalty", s.repetition_penalty,
             "penalty of tokens in prompt and output; above 1 makes them less likely; default: "
             "generation_config.json's, or 1");
  add_integer<uint64_t>(command, "--seed", s.seed, 0, UINT64_MAX,
                        "seed of the samples; changes nothing at temperature 0, which is greedy");
}

CLI::Option* add_device_options(CLI::App& command, RunArguments& a) {
  add_model_options(command, a.request);
  command
      .add_option("--target", a.request.options.target,
                  "of a GPU or a processor; default: of the one that is there")
      ->type_name("TARGET");
  CLI::Option* mode = add_mode_option(command, a.request.mode);
  for (const CLI::Option* option : std::as_const(command).get_options())
    if (option->nonpositional() && option != command.get_help_ptr()) a.compiling.push_back(option);
  command
      .add_option("--checkpoint", a.checkpoint, "directory of the weights, where MODEL is compiled already")
      ->type_name("DIR");
  command.add_option("--device", a.device, "auto (default): a GPU if there is one, else the processor")
      ->check(one_of({"auto", "cuda", "cpu", "emulator"}));
  a.compiling.push_back(add_integer<int64_t>(command, "--threads", a.threads, 1, 1024,
                                             "of the processor; default: as many as this process may use"));
  command
      .add_option("--keep-weights", a.keep_weights,
                  "keep packed weights on disk for the next start on the processor; default yes")
      ->check(one_of({kKeep, kDoNotKeep}));
  add_integer<uint64_t>(command, "--kept-weights-gb", a.kept_weights_gb, 1, 1'000'000,
                        "limit of all kept weights; default: a quarter of the disk's free space");
  return mode;
}

std::vector<CLI::Option*> add_page_options(CLI::App& command, RunArguments& a) {
  return {
      add_integer<uint32_t>(command, "--page-size", a.page_size, 1, kMaxCount,
                            "positions of a page of the cache: 16 (default), 32 or 64"),
      add_integer<uint32_t>(
          command, "--pages", a.pages, 1, kMaxCount,
          "pages of the cache; default: for all requests that can run at once, at their longest"),
      command.add_flag_callback(
          "--no-prefix-cache", [&a] { a.prefix_cache = false; },
          "feed every prompt whole; default: requests share the pages of equal prefixes"),
      add_integer<uint32_t>(command, "--max-rows-beside-decodes", a.max_rows_beside_decodes, 0, kMaxCount,
                            "rows of prompts in a step that also decodes; default 0: as many as fit"),
  };
}

std::vector<CLI::Option*> add_cache_options(CLI::App& command, RunArguments& a) {
  std::vector<CLI::Option*> options = add_page_options(command, a);
  options.push_back(
      command.add_flag("--recompute", a.recompute,
                       "let more requests run than pages can hold; the youngest are fed again later"));
  return options;
}

void add_new_tokens_option(CLI::App& command, RunArguments& a, const std::string& help) {
  add_integer<uint32_t>(command, "--max-new-tokens", a.max_new_tokens, 1, kMaxCount, help);
}

void add_launch_options(CLI::App& command, RunArguments& a) {
  add_integer<uint64_t>(command, "--timeout-ms", a.timeout_ms, 0, kMaxMs,
                        "deadline of a wait inside the kernel; default 10000, 0: never");
  command.add_flag_callback(
      "--unsafe-artefact", [&a] { a.seal = mkrt::SealCheck::kSkipped; },
      "run an artefact whose seal is broken, or whose schedule was not proved (docs/trust.md)");
  a.compiling.push_back(command.add_option("--assembler", a.assembler, "libnvJitLink.so or ptxas, for a GPU")
                            ->type_name("FILE"));
  add_integer<uint64_t>(command, "--emulator-seed", a.emulator_seed, 0, UINT64_MAX,
                        "order of threads and copies; 0 (default): fixed");
  add_integer<uint32_t>(command, "--emulator-threads", a.emulator_threads, 1, 256,
                        "threads of this machine; default 1");
}

void add_steps_option(CLI::App& command, RunArguments& a) {
  add_integer<uint32_t>(command, "--steps-per-launch", a.steps_per_launch, 1, mkrt::kMaxSteps,
                        "let the kernel go on by itself for so many tokens; default 1");
}

void add_run_options(CLI::App& command, RunArguments& a) {
  CLI::Option* mode = add_device_options(command, a);
  command.add_option("--prompt", a.prompt, "text to go on from");
  command.add_option("--prompt-ids", a.prompt_ids, "token ids to go on from: 1,2,3");
  CLI::Option* batch =
      command
          .add_option("--batch-file", a.batch_file,
                      "requests, one JSON object a line (docs/engine.md); -: standard input, as lines come")
          ->type_name("FILE");
  for (CLI::Option* option : add_cache_options(command, a)) option->needs(batch);
  add_new_tokens_option(command, a, "default 64, or what the context leaves");
  add_steps_option(command, a);
  add_sampling_options(command, a.sampling);
  command.add_flag("--no-special-tokens", a.no_special, "add no tokens around the prompt");
  CLI::Option* json =
      command.add_flag("--json", a.json, "print one object: prompt_ids, new_ids, text, device");
  add_integer<uint32_t>(command, "--logprobs", a.logprobs, 0, mkrt::kMaxTop,
                        "add log-probabilities to it: of each new token and of the N likeliest")
      ->needs(json)
      ->excludes(batch);
  command.add_option("--logits-out", a.logits_out, "write the logits of all fed positions, float32, as .npy")
      ->type_name("FILE")
      ->excludes(batch);
  command
      .add_option_function<std::string>(
          "--trace", [&a](const std::string& file) { a.trace = file, a.request.mode = Mode::kTraced; },
          "write what the workers did in the last launch, for mkc trace (docs/trace.md)")
      ->type_name("FILE")
      ->excludes(mode);
  add_launch_options(command, a);
  command.add_flag("--race", a.race, "let the emulator look for unordered accesses");
}

mkrt::MkSampling sampling_of(const SamplingFlags& flags, const GenerationDefaults& defaults) {
  mkrt::MkSampling sampling;
  sampling.temperature = flags.temperature.value_or(defaults.temperature);
  sampling.top_k = flags.top_k.value_or(defaults.top_k.value_or(sampling.top_k));
  sampling.top_p = flags.top_p.value_or(defaults.top_p.value_or(sampling.top_p));
  sampling.min_p = flags.min_p.value_or(defaults.min_p.value_or(sampling.min_p));
  sampling.repetition_penalty =
      flags.repetition_penalty.value_or(defaults.repetition_penalty.value_or(sampling.repetition_penalty));
  sampling.seed = flags.seed;
  return sampling;
}

bool is_artefact(const std::string& path) {
  const std::filesystem::path extension = std::filesystem::path(path).extension();
  return extension == ".cubin" || extension == ".so";
}

Status check_run(const RunArguments& a) {
  if (a.prompt.has_value() + a.prompt_ids.has_value() + a.batch_file.has_value() != 1)
    return Error{"mkc: error: give one of --prompt, --prompt-ids and --batch-file"};
  if (a.no_special && a.prompt_ids)
    return Error{"--no-special-tokens: error: is for text, --prompt-ids gets no tokens around it"};
  return check_chat(a);
}

Status check_chat(const RunArguments& a) {
  if (Status status = check_sampling_flags(a.sampling); !status.ok()) return status;
  return check_device(a);
}

Status check_device(const RunArguments& a) {
  if (!mkrt::check_page_size(a.page_size).ok())
    return Error{fmt::format("--page-size: error: found {}, expected 16, 32 or 64", a.page_size)};
  if (a.race && a.device != "auto" && a.device != "emulator")
    return Error{"--race: error: only the emulator sees races"};
  if (a.threads && a.device != "auto" && a.device != "cpu")
    return Error{"--threads: error: is for the processor"};
  if (!a.assembler.empty() && a.device == "cpu") return Error{"--assembler: error: is for a GPU"};
  for (const auto& [flag, given] : {std::pair{"--keep-weights", a.keep_weights.has_value()},
                                    std::pair{"--kept-weights-gb", a.kept_weights_gb.has_value()}})
    if (given && a.device != "auto" && a.device != "cpu")
      return Error{fmt::format("{}: error: is for the processor", flag)};
  if (a.kept_weights_gb && a.keep_weights == kDoNotKeep)
    return Error{"--kept-weights-gb: error: --keep-weights no keeps none"};
  const bool emulated = a.device == "emulator" || a.race;
  if (a.emulator_threads > 1 && !emulated) return Error{"--emulator-threads: error: is for the emulator"};
  if (a.emulator_seed > 0 && !emulated) return Error{"--emulator-seed: error: is for the emulator"};
  if (!a.checkpoint.empty() && !is_artefact(a.request.model))
    return Error{fmt::format("--checkpoint {}: error: is for compiled models, {} has its own weights",
                             a.checkpoint, a.request.model)};
  if (a.seal == mkrt::SealCheck::kSkipped && !is_artefact(a.request.model))
    return Error{
        fmt::format("--unsafe-artefact: error: is for compiled models, {} is none", a.request.model)};
  for (const CLI::Option* option : a.compiling)
    if (option->count() > 0 && is_artefact(a.request.model))
      return Error{fmt::format("{}: error: {} is compiled already", option->get_name(), a.request.model)};
  if (a.checkpoint.empty() && is_artefact(a.request.model))
    return Error{
        fmt::format("{}: error: holds no weights: name their checkpoint by --checkpoint", a.request.model)};
  return {};
}

}  // namespace mkc
