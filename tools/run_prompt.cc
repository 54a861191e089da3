#include "tools/run_prompt.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <span>

#include "runtime/base/npy.h"
#include "tools/answer_end.h"
#include "tools/logprobs.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/seconds.h"
#include "tools/token_rate.h"
#include "tools/token_text.h"

namespace mkc {
namespace {

// Printer prints the text of each token at once, or ids if there is no tokenizer.
class Printer {
 public:
  Printer(const mkrt::Tokenizer* tokenizer, std::span<const int32_t> prompt)
      : text_(tokenizer ? std::optional(text_after(*tokenizer, prompt)) : std::nullopt) {}

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

Status print_json_line(nlohmann::json out, const PromptRun& run, const std::vector<int32_t>& tokens) {
  out["text"] = nullptr;
  if (run.tokenizer) out["text"] = text_of(text_after(*run.tokenizer, run.prompt), tokens);
  const std::string line = json_text(out) + "\n";
  return put_out("-", std::as_bytes(std::span(line)), true);
}

// Returns the most new tokens. A number that --max-new-tokens gives stays as it is.
NewTokenLimit limit_of(const RunArguments& a, size_t prompt, const mkrt::Session& session) {
  const bool fits = prompt >= 1 && prompt <= session.context();
  if (a.max_new_tokens || !fits) return {a.max_new_tokens.value_or(kDefaultNewTokens)};
  return limit_new_tokens(kDefaultNewTokens, prompt, session.context());
}

// Says what was done, after all output.
void print_facts(const std::string& device, const TokenRate& rate, double seconds, AnswerEnd end) {
  print_err("{}: {} tokens in {:.2f} s, {:.1f} tokens/s, ended by {}\n", device, rate.tokens(), seconds,
            rate.per_second(), answer_end_name(end));
}

}  // namespace

Status run_prompt(const RunArguments& a, const PromptRun& run, const Loaded& loaded, mkrt::Session& session) {
  const std::string device = loaded.device->name();
  const NewTokenLimit limit = limit_of(a, run.prompt.size(), session);
  std::vector<float> logits;
  std::vector<mkrt::Sampled> samples;
  mkrt::GenerateOptions options;
  options.max_new_tokens = limit.tokens;
  options.steps_per_launch = a.steps_per_launch;
  options.stop_ids = loaded.artefact.manifest.eos_ids;
  options.sampling = run.sampling;
  if (a.logprobs) options.sampling.logprobs = 1 + *a.logprobs, options.samples = &samples;
  if (!a.logits_out.empty()) options.logits = &logits;
  Printer printer(run.tokenizer ? &*run.tokenizer : nullptr, run.prompt);
  ProgressLine progress;
  TokenRate rate;
  bool readable = true, not_finite = false;
  options.not_finite = &not_finite;
  options.on_fed = [&](size_t fed) { progress.count("prompt", fed, run.prompt.size(), "tokens"); };
  options.on_token = [&](int32_t token) {
    progress.clear();
    rate.took(1);
    return a.json || (readable = printer.add(token));
  };
  const auto begin = std::chrono::steady_clock::now();
  const mkrt::Result<std::vector<int32_t>> tokens = mkrt::generate(session, run.prompt, options);
  const double seconds = seconds_since(begin);
  progress.clear();
  if (!tokens.ok()) return tokens.error();
  if (not_finite) print_err("{}: warning: {}\n", device, mkrt::kNotFiniteText);
  if (!a.trace.empty())
    if (Status status = session.write_trace(a.trace); !status.ok()) return status;
  if (!a.logits_out.empty())
    if (Status status = mkrt::write_npy(a.logits_out, logits, loaded.artefact.manifest.vocab); !status.ok())
      return status;
  if (a.json) {
    nlohmann::json out{{"prompt_ids", run.prompt}, {"new_ids", tokens.value()}, {"device", device}};
    if (a.logprobs) out["logprobs"] = logprobs_json(samples);
    return print_json_line(std::move(out), run, tokens.value());
  }
  if (!readable || !printer.finish()) return Error{"mkc: error: cannot write to standard output"};
  const bool stopped = std::ranges::find(options.stop_ids, tokens.value().back()) != options.stop_ids.end();
  print_facts(device, rate, seconds, stopped ? AnswerEnd::kEndToken : limit.end);
  return {};
}

}  // namespace mkc
