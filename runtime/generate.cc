#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "runtime/session.h"

namespace mkrt {
namespace {

// Draws from softmax(logits / temperature), in float64.
int32_t draw(std::span<const float> logits, double temperature, std::mt19937_64& random) {
  const double greatest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> cumulative(logits.size());
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    cumulative[i] = total += std::exp((static_cast<double>(logits[i]) - greatest) / temperature);
  // 53 bits, the same with every standard library.
  const double at = static_cast<double>(random() >> 11) * 0x1p-53 * total;
  const auto chosen = std::upper_bound(cumulative.begin(), cumulative.end(), at);
  return static_cast<int32_t>(std::min<ptrdiff_t>(chosen - cumulative.begin(), std::ssize(logits) - 1));
}

// Feeds tokens and keeps the logits where they are asked for.
class Feeder {
 public:
  Feeder(Session& session, const GenerateOptions& options) : session_(session), options_(options) {
    random_.seed(options.seed);
  }

  // The successor of the last token. Requires at most max_tokens() tokens.
  Result<int32_t> feed(std::span<const int32_t> tokens) {
    const bool wanted = options_.logits || options_.temperature > 0;
    rows_.resize(wanted ? tokens.size() * session_.manifest().vocab : 0);
    const Result<int32_t> next = session_.step(tokens, wanted ? rows_.data() : nullptr);
    if (!next.ok()) return next;
    if (options_.logits) options_.logits->insert(options_.logits->end(), rows_.begin(), rows_.end());
    if (options_.temperature <= 0) return next;
    return draw(std::span(rows_).last(session_.manifest().vocab), options_.temperature, random_);
  }

 private:
  Session& session_;
  const GenerateOptions& options_;
  std::mt19937_64 random_;
  std::vector<float> rows_;
};

Status check(const Session& session, std::span<const int32_t> prompt, const GenerateOptions& options) {
  if (prompt.empty()) return Error{"prompt: error: is empty, expected at least one token"};
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    return Error{fmt::format("temperature: error: is {}, expected 0 or more", options.temperature)};
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
  Feeder feeder(session, options);
  Result<int32_t> next = 0;
  while (!prompt.empty()) {
    const size_t count = std::min<size_t>(prompt.size(), session.max_tokens());
    next = feeder.feed(prompt.first(count));
    if (!next.ok()) return next.error();
    prompt = prompt.subspan(count);
  }
  std::vector<int32_t> tokens;
  while (tokens.size() < options.max_new_tokens) {
    const int32_t token = next.value();
    tokens.push_back(token);
    const bool wanted = !options.on_token || options.on_token(token);
    const bool stop =
        std::find(options.stop_ids.begin(), options.stop_ids.end(), token) != options.stop_ids.end();
    if (!wanted || stop || tokens.size() == options.max_new_tokens) break;
    next = feeder.feed(std::span(&token, 1));
    if (!next.ok()) return next.error();
  }
  return tokens;
}

}  // namespace mkrt
