#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "frontend/source.h"
#include "runtime/npy.h"
#include "runtime/session.h"
#include "runtime/text/tokenizer.h"
#include "runtime/weights.h"
#include "tools/artefact.h"
#include "tools/commands.h"
#include "tools/logprobs.h"
#include "tools/run_batch.h"

namespace mkc {
namespace {

struct RunArguments {
  ModelRequest request;
  std::string checkpoint;  // of a cubin
  std::string device = "auto";
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_ids;
  std::optional<std::string> batch_file;
  uint32_t page_size = 16, pages = 0;
  bool recompute = false;
  uint32_t max_new_tokens = 64, steps_per_launch = 1;
  mkrt::MkSampling sampling;
  std::optional<uint32_t> logprobs;
  bool json = false;
  bool no_special = false;
  std::string logits_out, trace;
  std::string assembler;
  uint64_t emulator_seed = 0;
  uint32_t emulator_threads = 1;
  bool race = false;
  uint64_t timeout_ms = 10'000;
};

Result<std::vector<int32_t>> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int32_t id = 0;
    const auto [stop, fault] = std::from_chars(text.data() + begin, text.data() + end, id);
    if (fault != std::errc() || stop != text.data() + end)
      return Error{fmt::format("--prompt-ids: error: found \"{}\", expected integers with commas between",
                               text.substr(begin, end - begin))};
    ids.push_back(id);
    begin = end + 1;
  }
  return ids;
}

// Everything that generation needs, whichever device runs it.
struct Loaded {
  std::string directory;  // of the checkpoint
  mkrt::Checkpoint checkpoint;
  mkrt::Artefact artefact;
  std::string config_hash;
  HostKernel kernel;  // emulator only
  std::unique_ptr<mkrt::Device> device;
};

bool is_cubin(const std::string& path) {
  return std::filesystem::path(path).extension() == ".cubin";
}

// Compiles for a device, which is opened already if it is a GPU.
Status compile_for(const RunArguments& a, Loaded& loaded) {
  ModelRequest request = a.request;
  if (!loaded.device) request.options.target = "emulator";
  // What a request gets then is what it gets alone, also by another call.
  if (!request.options.batch_invariant) request.options.batch_invariant = true;
  Result<Compilation> opened = open_model(request, true);
  if (!opened.ok()) return opened.error();
  Compilation& c = opened.value();
  loaded.directory = c.request.checkpoint;
  if (loaded.device) {
    const Result<std::unique_ptr<Assembler>> assembler = find_assembler(a.assembler);
    if (!assembler.ok()) return assembler.error();
    const Result<BuiltCubin> cubin = build_cubin(c, *assembler.value(), default_cache());
    if (!cubin.ok()) return cubin.error();
    mkrt::Result<mkrt::Artefact> artefact = mkrt::read_artefact(cubin.value().bytes, "the compiled cubin");
    if (!artefact.ok()) return artefact.error();
    loaded.artefact = std::move(artefact.value());
  } else {
    if (Status status = run_passes(c); !status.ok()) return status;
    HostOptions options;
    options.race = a.race;
    Result<HostArtefact> host = build_for_emulator(c, options);
    if (!host.ok()) return host.error();
    loaded.artefact = std::move(host.value().artefact);
    loaded.kernel = std::move(host.value().kernel);
    mkrt::EmulatorDeviceOptions emulator;
    emulator.seed = a.emulator_seed;
    emulator.os_threads = a.emulator_threads;
    emulator.race = a.race;
    loaded.device =
        mkrt::open_emulator(loaded.kernel.entries, emulator, [sites = loaded.kernel.sites](uint32_t site) {
          return site < sites.size() ? sites[site] : std::string();
        });
  }
  loaded.checkpoint = std::move(*c.checkpoint);
  return {};
}

Status load_cubin(const RunArguments& a, Loaded& loaded) {
  if (a.checkpoint.empty())
    return Error{fmt::format("{}: error: a cubin holds no weights: name their checkpoint by --checkpoint",
                             a.request.model)};
  mkrt::Result<mkrt::Artefact> artefact = mkrt::load_artefact(a.request.model);
  if (!artefact.ok()) return artefact.error();
  mkrt::Result<mkrt::Checkpoint> checkpoint = mkrt::open_checkpoint(a.checkpoint);
  if (!checkpoint.ok()) return checkpoint.error();
  loaded.artefact = std::move(artefact.value());
  loaded.checkpoint = std::move(checkpoint.value());
  loaded.directory = a.checkpoint;
  // Refused before a device is looked for: a mismatch is one on every device.
  return mkrt::check_weights(loaded.artefact.manifest, loaded.checkpoint);
}

Result<Loaded> load(const RunArguments& a) {
  Loaded loaded;
  const bool cubin = is_cubin(a.request.model);
  if (cubin)
    if (Status status = load_cubin(a, loaded); !status.ok()) return status.error();
  if (cubin && !a.trace.empty() && !loaded.artefact.manifest.traced)
    return Error{
        fmt::format("{}: error: is not traced, expected a cubin of mkc compile --trace", a.request.model)};
  if (a.device != "emulator" && !a.race) {  // only the emulator sees races
    mkrt::Result<std::unique_ptr<mkrt::Device>> gpu = mkrt::open_cuda();
    if (gpu.ok())
      loaded.device = std::move(gpu.value());
    else if (a.device == "cuda" || cubin)
      return gpu.error();
  } else if (cubin) {
    return Error{
        fmt::format("{}: error: a cubin runs on a GPU; give the emulator the model itself", a.request.model)};
  }
  if (!cubin)
    if (Status status = compile_for(a, loaded); !status.ok()) return status.error();
  const Result<Source> config = read_source(loaded.directory + "/config.json");
  if (!config.ok()) return config.error();
  loaded.config_hash = mkrt::hash_hex(config.value().text);
  return loaded;
}

// None where there is no file and no text to encode.
Result<std::optional<mkrt::Tokenizer>> find_tokenizer(const RunArguments& a, const std::string& directory) {
  const std::string path = directory + "/tokenizer.json";
  std::error_code ignored;
  if (!a.prompt && !std::filesystem::exists(path, ignored)) return std::optional<mkrt::Tokenizer>();
  mkrt::Result<mkrt::Tokenizer> loaded = mkrt::load_tokenizer(path);
  if (!loaded.ok()) return loaded.error();
  return std::optional(std::move(loaded.value()));
}

// The prompt as ids.
Result<std::vector<int32_t>> prompt_of(const RunArguments& a,
                                       const std::optional<mkrt::Tokenizer>& tokenizer) {
  if (!a.prompt) return parse_ids(*a.prompt_ids);
  const Result<std::vector<int32_t>> ids = mkrt::encode(*tokenizer, *a.prompt, !a.no_special);
  if (!ids.ok()) return Error{"--prompt: error: " + ids.error().message};
  return ids;
}

// Prints text as its tokens come.
class Printer {
 public:
  explicit Printer(const mkrt::Tokenizer* tokenizer)
      : decoder_(tokenizer ? std::optional(mkrt::StreamDecoder(tokenizer->decoder, true)) : std::nullopt) {}

  // False once nobody reads.
  bool add(int32_t token) {
    if (!decoder_) return put(fmt::format("{}{}", first_ ? "" : ",", token));
    const mkrt::Result<std::string> text = decoder_->push(token);
    return put(text.ok() ? text.value() : fmt::format("<{}>", token));
  }
  bool finish() { return put((decoder_ ? decoder_->flush() : "") + "\n"); }

 private:
  bool put(const std::string& text) {
    first_ = false;
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  }
  std::optional<mkrt::StreamDecoder> decoder_;
  bool first_ = true;
};

Status print_json(nlohmann::json out, const std::vector<int32_t>& tokens, const mkrt::Tokenizer* tokenizer) {
  out["text"] = nullptr;
  if (tokenizer) {
    const mkrt::Result<std::string> text = mkrt::decode(*tokenizer, tokens, true);
    if (!text.ok()) return text.error();
    out["text"] = text.value();
  }
  const std::string line = out.dump() + "\n";
  return put_out("-", std::as_bytes(std::span(line)), true);
}

// Faults of the sampling by their flags, which are the fields' names.
// Of the last launch, where it is asked for.
Status write_trace(const RunArguments& a, const mkrt::Session& session) {
  if (a.trace.empty()) return {};
  const mkrt::Result<mkrt::Trace> trace = session.read_trace();
  if (!trace.ok()) return trace.error();
  const std::string text = mkrt::to_json(trace.value()) + "\n";
  return mkrt::write_file(a.trace, std::as_bytes(std::span(text)));
}

Status check_sampling_flags(const mkrt::MkSampling& sampling) {
  const Status status = mkrt::check_sampling(sampling);
  if (status.ok()) return {};
  std::string message = status.error().message;
  std::replace(message.begin(), message.begin() + static_cast<ptrdiff_t>(message.find(':')), '_', '-');
  return Error{"--" + message};
}

Status run(const RunArguments& a) {
  if (a.prompt.has_value() + a.prompt_ids.has_value() + a.batch_file.has_value() != 1)
    return Error{"mkc: error: give one of --prompt, --prompt-ids and --batch-file"};
  if (Status status = check_sampling_flags(a.sampling); !status.ok()) return status;
  if (Status status = mkrt::check_page_size(a.page_size); !status.ok()) return status;
  if (a.race && a.device == "cuda") return Error{"--race: error: only the emulator sees races"};
  if (!a.checkpoint.empty() && !is_cubin(a.request.model))
    return Error{fmt::format("--checkpoint {}: error: is for cubins, {} has its own weights", a.checkpoint,
                             a.request.model)};
  BatchRun batch;
  if (a.batch_file) {
    auto lines = read_batch_file(*a.batch_file, {a.max_new_tokens, a.sampling});
    if (!lines.ok()) return lines.error();
    batch.lines = std::move(lines.value());
  }
  Result<Loaded> got = load(a);
  if (!got.ok()) return got.error();
  Loaded& loaded = got.value();
  const Result<std::optional<mkrt::Tokenizer>> found = find_tokenizer(a, loaded.directory);
  if (!found.ok()) return found.error();
  const std::optional<mkrt::Tokenizer>& tokenizer = found.value();
  const Result<std::vector<int32_t>> prompt = a.batch_file ? std::vector<int32_t>() : prompt_of(a, tokenizer);
  if (!prompt.ok()) return prompt.error();
  mkrt::SessionOptions session_options;
  session_options.timeout_ns = a.timeout_ms * 1'000'000;
  if (a.batch_file) {
    mkrt::CacheOptions& cache = session_options.cache;
    cache.page_size = a.page_size;
    cache.pages =
        a.pages ? a.pages : pages_of_batch(loaded.artefact.manifest, a.page_size, batch.lines.size());
  }
  mkrt::Result<mkrt::Session> session = mkrt::Session::open(
      loaded.artefact, loaded.checkpoint, loaded.config_hash, *loaded.device, session_options);
  if (!session.ok()) return session.error();
  if (a.batch_file) {
    batch.options = {tokenizer ? &*tokenizer : nullptr, !a.no_special};
    batch.stop_ids = loaded.artefact.manifest.eos_ids;
    batch.steps_per_launch = a.steps_per_launch;
    if (a.recompute) batch.eviction = mkrt::Eviction::kRecompute;
    if (!a.json) batch.device = loaded.device->name();
    Status status = run_batch(batch, session.value());
    return status.ok() ? write_trace(a, session.value()) : status;
  }

  std::vector<float> logits;
  mkrt::GenerateOptions options;
  options.max_new_tokens = a.max_new_tokens;
  options.steps_per_launch = a.steps_per_launch;
  options.stop_ids = loaded.artefact.manifest.eos_ids;
  options.sampling = a.sampling;
  std::vector<mkrt::Drawn> draws;
  if (a.logprobs) options.sampling.logprobs = 1 + *a.logprobs, options.draws = &draws;
  if (!a.logits_out.empty()) options.logits = &logits;
  Printer printer(tokenizer ? &*tokenizer : nullptr);
  bool readable = true;
  if (!a.json) options.on_token = [&](int32_t token) { return readable = printer.add(token); };
  if (!a.json && isatty(STDERR_FILENO))
    fmt::print(stderr, "{}: {} tokens of prompt\n", loaded.device->name(), prompt.value().size());

  const auto begin = std::chrono::steady_clock::now();
  const mkrt::Result<std::vector<int32_t>> tokens = mkrt::generate(session.value(), prompt.value(), options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!tokens.ok()) return tokens.error();
  if (Status status = write_trace(a, session.value()); !status.ok()) return status;
  if (!a.logits_out.empty())
    if (Status status = mkrt::write_npy(a.logits_out, logits, loaded.artefact.manifest.vocab); !status.ok())
      return status;
  if (a.json) {
    nlohmann::json out{
        {"prompt_ids", prompt.value()}, {"new_ids", tokens.value()}, {"device", loaded.device->name()}};
    if (a.logprobs) out["logprobs"] = logprobs_json(draws);
    return print_json(std::move(out), tokens.value(), tokenizer ? &*tokenizer : nullptr);
  }
  if (!readable || !printer.finish()) return Error{"mkc: error: cannot write to standard output"};
  fmt::print(stderr, "{}: {} tokens in {:.2f} s\n", loaded.device->name(), tokens.value().size(), seconds);
  return {};
}

void add_sampling_options(CLI::App& command, RunArguments& a) {
  mkrt::MkSampling& s = a.sampling;
  const auto add = [&](const char* flag, auto& value, const char* help) {
    command.add_option(flag, value, help);
  };
  add("--temperature", s.temperature, "0 (default): greedy");
  add("--top-k", s.top_k, "keep the K likeliest tokens; 0 (default): all");
  add("--top-p", s.top_p, "keep the likeliest tokens up to this share; 1 (default): all");
  add("--min-p", s.min_p, "drop tokens less likely than this times the likeliest; default 0");
  add("--repetition-penalty", s.repetition_penalty,
      "of tokens in prompt and output: above 1 makes them less likely; default 1");
  add("--seed", s.seed, "of the draws, with a temperature");
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("run", "generate text, on a GPU or the emulator");
  auto a = std::make_shared<RunArguments>();
  add_model_options(*command, a->request);
  command->add_option("--target", a->request.options.target, "of a GPU; default sm_90a");
  CLI::Option* mode = add_mode_option(*command, a->request.mode);
  command->add_option("--checkpoint", a->checkpoint, "directory of the weights, where MODEL is a cubin");
  command->add_option("--device", a->device, "auto (a GPU if there is one), cuda or emulator")
      ->check(CLI::IsMember({"auto", "cuda", "emulator"}));
  command->add_option("--prompt", a->prompt, "text to go on from");
  command->add_option("--prompt-ids", a->prompt_ids, "token ids to go on from: 1,2,3");
  CLI::Option* batch =
      command->add_option("--batch-file", a->batch_file, "requests, one JSON object a line (docs/engine.md)");
  command->add_option("--page-size", a->page_size, "positions of a page of the cache: 16 (default), 32 or 64")
      ->needs(batch);
  command
      ->add_option("--pages", a->pages,
                   "of the cache; default: for all requests that can run at once, at their longest")
      ->needs(batch)
      ->check(CLI::Range(1u, 1u << 30));
  command
      ->add_flag("--recompute", a->recompute,
                 "let more requests run than pages can hold; the youngest are fed again later")
      ->needs(batch);
  command->add_option("--max-new-tokens", a->max_new_tokens, "default 64")->check(CLI::Range(1u, 1u << 30));
  command
      ->add_option("--steps-per-launch", a->steps_per_launch,
                   "let the kernel go on by itself for so many tokens; default 1")
      ->check(CLI::Range(1u, mkrt::kMaxSteps));
  add_sampling_options(*command, *a);
  command->add_flag("--no-special-tokens", a->no_special, "add no tokens around the prompt");
  CLI::Option* json =
      command->add_flag("--json", a->json, "print one object: prompt_ids, new_ids, text, device");
  command
      ->add_option("--logprobs", a->logprobs,
                   "add log-probabilities to it: of each new token and of the N likeliest")
      ->check(CLI::Range(0u, mkrt::kMaxTop))
      ->needs(json)
      ->excludes(batch);
  command
      ->add_option("--logits-out", a->logits_out, "write the logits of all fed positions, float32, as .npy")
      ->excludes(batch);
  command
      ->add_option_function<std::string>(
          "--trace", [a](const std::string& file) { a->trace = file, a->request.mode = Mode::kTraced; },
          "write what the workers did in the last launch, for mkc trace (docs/trace.md)")
      ->excludes(mode);
  command->add_option("--timeout-ms", a->timeout_ms, "of a wait inside the kernel; default 10000, 0: never");
  command->add_option("--assembler", a->assembler, "libnvJitLink.so or ptxas, for a GPU");
  command->add_option("--emulator-seed", a->emulator_seed, "order of threads and copies; 0 (default): fixed");
  command->add_option("--emulator-threads", a->emulator_threads, "threads of this machine; default 1")
      ->check(CLI::Range(1u, 256u));
  command->add_flag("--race", a->race, "let the emulator look for unordered accesses");
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace mkc
