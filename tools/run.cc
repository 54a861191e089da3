#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "frontend/json.h"
#include "frontend/source.h"
#include "runtime/base/npy.h"
#include "runtime/session/kv_cache.h"
#include "runtime/session/session.h"
#include "runtime/text/tokenizer.h"
#include "tools/artefact.h"
#include "tools/commands.h"
#include "tools/logprobs.h"
#include "tools/model_path.h"
#include "tools/output.h"
#include "tools/room.h"
#include "tools/run_arguments.h"
#include "tools/run_batch.h"
#include "tools/run_load.h"
#include "tools/seconds.h"
#include "tools/token_text.h"

namespace mkc {
namespace {

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

// Returns the first text prompt that needs a tokenizer, with the alternative, for a message. Returns "" if
// all prompts are ids.
std::string text_given(const RunArguments& a, const std::vector<Result<BatchLine>>& lines) {
  if (a.prompt) return "--prompt; --prompt-ids needs none";
  for (const Result<BatchLine>& line : lines)
    if (line.ok() && line.value().prompt)
      return fmt::format("the prompt at {}; prompt_ids need none", line.value().request.name);
  return "";
}

// Returns the tokenizer of a directory, or nothing if there is no file and no `text` needs it. Error: `text`
// needs a tokenizer that does not exist.
Result<std::optional<mkrt::Tokenizer>> find_tokenizer(const std::string& directory, const std::string& text) {
  const std::string path = directory + "/tokenizer.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    if (text.empty()) return std::optional<mkrt::Tokenizer>();
    const bool has_model = std::filesystem::exists(directory + "/tokenizer.model", ignored);
    return Error{fmt::format("{}: error: has no tokenizer.json{}, expected one for {}", directory,
                             has_model ? " but a tokenizer.model, which is not read" : "", text)};
  }
  mkrt::Result<mkrt::Tokenizer> loaded = mkrt::load_tokenizer(path);
  if (!loaded.ok()) return loaded.error();
  return std::optional(std::move(loaded.value()));
}

// Returns the prompt as ids.
Result<std::vector<int32_t>> prompt_of(const RunArguments& a,
                                       const std::optional<mkrt::Tokenizer>& tokenizer) {
  if (!a.prompt) return parse_ids(*a.prompt_ids);
  Result<std::vector<int32_t>> ids = mkrt::encode(*tokenizer, *a.prompt, !a.no_special);
  if (!ids.ok()) return Error{"--prompt: error: " + ids.error().message};
  return ids;
}

// Printer prints the text of each token at once, or ids if there is no tokenizer.
class Printer {
 public:
  explicit Printer(const mkrt::Tokenizer* tokenizer)
      : text_(tokenizer ? std::optional<TokenText>(*tokenizer) : std::nullopt) {}

  // Prints a token. Returns false once standard output is closed.
  bool add(int32_t token) {
    return put(text_ ? text_->add(token) : fmt::format("{}{}", first_ ? "" : ",", token));
  }
  bool finish() { return put((text_ ? text_->finish() : "") + "\n"); }

 private:
  bool put(const std::string& text) {
    first_ = false;
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  }
  std::optional<TokenText> text_;
  bool first_ = true;
};

Status print_json(nlohmann::json out, const std::vector<int32_t>& tokens, const mkrt::Tokenizer* tokenizer) {
  out["text"] = nullptr;
  if (tokenizer) out["text"] = text_of(*tokenizer, tokens);
  const std::string line = out.dump() + "\n";
  return put_out("-", std::as_bytes(std::span(line)), true);
}

// Writes the trace of the last launch, if --trace asks for it.
Status write_trace(const RunArguments& a, const mkrt::Session& session) {
  if (a.trace.empty()) return {};
  const mkrt::Result<mkrt::Trace> trace = session.read_trace();
  if (!trace.ok()) return trace.error();
  const std::string text = mkrt::to_json(trace.value()) + "\n";
  return mkrt::write_file(a.trace, std::as_bytes(std::span(text)));
}

// Prepared holds the inputs that are read before compilation.
struct Prepared {
  std::string directory;  // directory of the checkpoint
  GenerationDefaults defaults;
  std::optional<mkrt::Tokenizer> tokenizer;
  std::vector<int32_t> prompt;
  std::vector<Result<BatchLine>> lines;
};

Result<Prepared> prepare(const RunArguments& a) {
  Prepared p;
  p.directory = a.checkpoint;
  if (!is_artefact(a.request.model)) {
    const Result<CompileRequest> request = read_request(a.request.model, a.request.options);
    if (!request.ok()) return request.error();
    p.directory = request.value().checkpoint;
  }
  MKC_TRY(source, read_source(p.directory + "/config.json"));
  MKC_TRY(config, parse_json(std::move(source)));
  MKC_TRY(defaults, read_generation(p.directory, config));
  p.defaults = std::move(defaults);
  if (a.batch_file) {
    MKC_TRY(lines, read_batch_file(*a.batch_file, {a.max_new_tokens, sampling_of(a.sampling, p.defaults)}));
    p.lines = std::move(lines);
  }
  MKC_TRY(tokenizer, find_tokenizer(p.directory, text_given(a, p.lines)));
  p.tokenizer = std::move(tokenizer);
  if (!a.batch_file) {
    MKC_TRY(prompt, prompt_of(a, p.tokenizer));
    p.prompt = std::move(prompt);
  }
  return p;
}

Status run_lines(const RunArguments& a, Prepared& p, Loaded& loaded, mkrt::Session& session) {
  BatchRun batch;
  batch.lines = std::move(p.lines);
  batch.options = {p.tokenizer ? &*p.tokenizer : nullptr, !a.no_special};
  batch.stop_ids = loaded.artefact.manifest.eos_ids;
  batch.steps_per_launch = a.steps_per_launch;
  if (a.recompute) batch.preemption = mkrt::Preemption::kRecompute;
  if (!a.json) batch.device = loaded.device->name();
  Status status = run_batch(batch, session);
  return status.ok() ? write_trace(a, session) : status;
}

Status run_prompt(const RunArguments& a, const Prepared& p, Loaded& loaded, mkrt::Session& session) {
  const mkrt::Tokenizer* tokenizer = p.tokenizer ? &*p.tokenizer : nullptr;
  std::vector<float> logits;
  mkrt::GenerateOptions options;
  options.max_new_tokens = a.max_new_tokens;
  options.steps_per_launch = a.steps_per_launch;
  options.stop_ids = loaded.artefact.manifest.eos_ids;
  options.sampling = sampling_of(a.sampling, p.defaults);
  std::vector<mkrt::Sampled> samples;
  if (a.logprobs) options.sampling.logprobs = 1 + *a.logprobs, options.samples = &samples;
  if (!a.logits_out.empty()) options.logits = &logits;
  Printer printer(tokenizer);
  bool readable = true;
  if (!a.json) options.on_token = [&](int32_t token) { return readable = printer.add(token); };
  if (!a.json && isatty(STDERR_FILENO))
    print_err("{}: {} tokens of prompt\n", loaded.device->name(), p.prompt.size());

  const auto begin = std::chrono::steady_clock::now();
  const mkrt::Result<std::vector<int32_t>> tokens = mkrt::generate(session, p.prompt, options);
  const double seconds = seconds_since(begin);
  if (!tokens.ok()) return tokens.error();
  if (Status status = write_trace(a, session); !status.ok()) return status;
  if (!a.logits_out.empty())
    if (Status status = mkrt::write_npy(a.logits_out, logits, loaded.artefact.manifest.vocab); !status.ok())
      return status;
  if (a.json) {
    nlohmann::json out{
        {"prompt_ids", p.prompt}, {"new_ids", tokens.value()}, {"device", loaded.device->name()}};
    if (a.logprobs) out["logprobs"] = logprobs_json(samples);
    return print_json(std::move(out), tokens.value(), tokenizer);
  }
  if (!readable || !printer.finish()) return Error{"mkc: error: cannot write to standard output"};
  print_err("{}: {} tokens in {:.2f} s\n", loaded.device->name(), tokens.value().size(), seconds);
  return {};
}

// Checks that the cache's pages fit in memory together with weights and workspace. The pages of a single
// prompt are not counted, because its context needs far less.
Status check_caches(const Loaded& loaded, const mkrt::CacheOptions& cache) {
  const mkrt::Manifest& m = loaded.artefact.manifest;
  const uint64_t bytes =
      m.weight_bytes + m.workspace_bytes + uint64_t{cache.pages} * cache.page_size * mkrt::position_bytes(m);
  const std::string fault = why_no_room(bytes, fmt::format("weights and {} pages of the cache", cache.pages),
                                        loaded.device->memory_bytes(), loaded.device->name());
  return fault.empty() ? Status() : Status(Error{"--pages: error: " + fault});
}

// Returns where packed weights are kept: beside the cache of compiled code, for the processor alone.
mkrt::KeptFolder kept_folder(const RunArguments& a, const Loaded& loaded) {
  const std::string cache = default_cache().folder;
  if (a.keep_weights == kDoNotKeep || cache.empty() || loaded.device->name() != "cpu") return {};
  mkrt::KeptFolder folder{cache + "/weights"};
  if (a.kept_weights_gb) folder.max_bytes = *a.kept_weights_gb * 1'000'000'000;
  return folder;
}

// Prints warnings of kept weights and of tensors that hold NaN values. A terminal also sees how the weights
// came.
void print_weights(const mkrt::WeightsReport& weights, const std::string& device) {
  for (const std::string& warning : weights.warnings) print_err("{}\n", warning);
  for (const mkrt::FaultyTensor& t : weights.faulty)
    print_err("{}: warning: tensor \"{}\" holds {} values that are not a number, the first at element {}\n",
              t.file, t.name, t.count, t.first);
  if (!isatty(STDERR_FILENO)) return;
  const std::string where =
      weights.file.empty() ? "" : fmt::format(", {} {}", weights.mapped ? "from" : "kept in", weights.file);
  print_err("{}: weights {} in {:.2f} s{}\n", device, weights.mapped ? "mapped" : "packed", weights.seconds,
            where);
}

Status run(RunArguments a) {
  if (Status status = check_run(a); !status.ok()) return status;
  for (std::string* model : {&a.request.model, &a.checkpoint})
    if (!model->empty() && !is_artefact(*model)) {
      MKC_TRY(found, find_model(*model));
      *model = found;
    }
  MKC_TRY(prepared, prepare(a));
  ModelRequest source = a.request;
  if (is_artefact(source.model)) source.model = a.checkpoint;
  for (const std::string& output : {a.logits_out, a.trace}) MKC_TRY_STATUS(check_output(output, source));
  MKC_TRY(loaded, load(a));
  mkrt::SessionOptions options;
  options.timeout_ns = a.timeout_ms * 1'000'000;
  options.seal = a.seal;
  options.kept_weights = kept_folder(a, loaded);
  options.find_faulty = true;
  if (a.batch_file) {
    options.cache.page_size = a.page_size;
    options.cache.pages =
        a.pages ? a.pages : pages_of_batch(loaded.artefact.manifest, a.page_size, prepared.lines.size());
  }
  MKC_TRY_STATUS(check_caches(loaded, options.cache));
  mkrt::Result<mkrt::Session> session =
      mkrt::Session::open(loaded.artefact, loaded.checkpoint, loaded.config_hash, *loaded.device, options);
  if (!session.ok()) return session.error();
  print_weights(session.value().weights(), loaded.device->name());
  return a.batch_file ? run_lines(a, prepared, loaded, session.value())
                      : run_prompt(a, prepared, loaded, session.value());
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("run", "generate text, on a GPU, the processor or the emulator");
  auto a = std::make_shared<RunArguments>();
  add_run_options(*command, *a);
  command->callback([a, &action] { action = [a] { return run(*a); }; });
}

}  // namespace mkc
