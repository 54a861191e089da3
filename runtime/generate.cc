#include <fmt/format.h>

#include <algorithm>

#include "runtime/sampler.h"
#include "runtime/session.h"

namespace mkrt {
namespace {

// Feeds tokens, keeps the logits where they are asked for, and draws what follows.
class Feeder {
 public:
  Feeder(Session& session, std::span<const int32_t> prompt, const GenerateOptions& options)
      : session_(session),
        options_(options),
        vocab_(session.manifest().vocab),
        sampler_(options.sampling, prompt, vocab_) {}

  // Requires at most max_tokens() tokens.
  Status feed(std::span<const int32_t> tokens) {
    rows_.resize(options_.logits || sampler_.needs_logits() ? tokens.size() * vocab_ : 0);
    const Result<int32_t> next = session_.step(tokens, rows_.empty() ? nullptr : rows_.data());
    if (!next.ok()) return next.error();
    if (options_.logits) options_.logits->insert(options_.logits->end(), rows_.begin(), rows_.end());
    greedy_ = next.value();
    return {};
  }

  // The successor of the last token fed.
  Drawn next() {
    return sampler_.next(greedy_, rows_.empty() ? std::span<float>() : std::span(rows_).last(vocab_));
  }

 private:
  Session& session_;
  const GenerateOptions& options_;
  const size_t vocab_;
  Sampler sampler_;
  std::vector<float> rows_;
  int32_t greedy_ = 0;
};

Status check(const Session& session, std::span<const int32_t> prompt, const GenerateOptions& options) {
  if (prompt.empty()) return Error{"prompt: error: is empty, expected at least one token"};
  if (Status status = check_sampling(options.sampling); !status.ok()) return status;
  const uint64_t vocab = session.manifest().vocab;
  for (size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] < 0 || static_cast<uint64_t>(prompt[i]) >= vocab)
      return Error{
          fmt::format("prompt: error: token {} has the id {}, expected 0 to {}", i, prompt[i], vocab - 1)};
  // The last new token is not fed.
  const uint64_t fed = prompt.size() + std::max<uint64_t>(1, options.max_new_tokens) - 1;
  const uint64_t left = session.context() - session.position();
  if (fed > left)
    return Error{fmt::format("prompt: error: {} tokens and {} new ones need {} positions, the context has {}",
                             prompt.size(), options.max_new_tokens, fed, left)};
  return {};
}

}  // namespace

Result<std::vector<int32_t>> generate(Session& session, std::span<const int32_t> prompt,
                                      const GenerateOptions& options) {
  if (Status status = check(session, prompt, options); !status.ok()) return status.error();
  Feeder feeder(session, prompt, options);
  while (!prompt.empty()) {
    const size_t count = std::min<size_t>(prompt.size(), session.max_tokens());
    if (Status status = feeder.feed(prompt.first(count)); !status.ok()) return status.error();
    prompt = prompt.subspan(count);
  }
  std::vector<int32_t> tokens;
  while (tokens.size() < options.max_new_tokens) {
    const Drawn drawn = feeder.next();
    tokens.push_back(drawn.id);
    if (options.draws) options.draws->push_back(drawn);
    const bool wanted = !options.on_token || options.on_token(drawn.id);
    const bool stop =
        std::find(options.stop_ids.begin(), options.stop_ids.end(), drawn.id) != options.stop_ids.end();
    if (!wanted || stop || tokens.size() == options.max_new_tokens) break;
    if (Status status = feeder.feed(std::span(&drawn.id, 1)); !status.ok()) return status.error();
  }
  return tokens;
}

}  // namespace mkrt
