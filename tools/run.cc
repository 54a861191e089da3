#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "runtime/base/npy.h"
#include "runtime/session/session.h"
#include "runtime/text/tokenizer.h"
#include "tools/artefact.h"
#include "tools/commands.h"
#include "tools/logprobs.h"
#include "tools/model_path.h"
#include "tools/output.h"
#include "tools/run_arguments.h"
#include "tools/run_batch.h"
#include "tools/run_inputs.h"
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
  MKC_TRY(directory, checkpoint_directory(a));
  MKC_TRY(defaults, read_defaults(directory));
  p.directory = std::move(directory);
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
  batch.prefix_cache = a.prefix_cache;
  batch.max_rows_beside_decodes = a.max_rows_beside_decodes;
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

Status run(RunArguments a) {
  if (Status status = check_run(a); !status.ok()) return status;
  MKC_TRY_STATUS(find_models(a));
  MKC_TRY(prepared, prepare(a));
  ModelRequest source = a.request;
  if (is_artefact(source.model)) source.model = a.checkpoint;
  for (const std::string& output : {a.logits_out, a.trace}) MKC_TRY_STATUS(check_output(output, source));
  MKC_TRY(loaded, load(a));
  Result<mkrt::Session> session = open_session(a, loaded, prepared.lines.size());
  if (!session.ok()) return session.error();
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
