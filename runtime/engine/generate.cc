#include <fmt/format.h>

#include <algorithm>

#include "runtime/engine/sampler.h"
#include "runtime/session/check_batch.h"
#include "runtime/session/session.h"

namespace mkrt {
namespace {

Status check(const Session& session, std::span<const int32_t> prompt, const GenerateOptions& options) {
  if (prompt.empty()) return Error{"prompt: error: is empty, expected at least one token"};
  if (Status status = check_sampling(options.sampling); !status.ok()) return status;
  const uint64_t vocab = session.manifest().vocab;
  if (Status status = check_bias(options.bias, options.stop_ids, vocab); !status.ok()) return status;
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
  const size_t vocab = session.manifest().vocab;
  Sampler sampler(options.sampling, options.bias, prompt, options.stop_ids, vocab);
  StepResult result;
  std::vector<float> rows;
  const auto feed = [&](std::span<const int32_t> tokens, uint64_t limit) -> Status {
    const uint32_t steps = options.logits ? 1 : std::clamp(options.steps_per_launch, 1u, kMaxSteps);
    const uint64_t max = std::min(steps, sampler.max_steps());
    const Samples samples = sampler.next(static_cast<uint32_t>(std::min(limit, max)), options.stop_ids);
    rows.resize(options.logits ? tokens.size() * vocab : 0);
    const Status status = session.step(tokens, samples, result, rows.empty() ? nullptr : rows.data());
    if (status.ok() && options.logits)
      options.logits->insert(options.logits->end(), rows.begin(), rows.end());
    return status;
  };
  size_t fed = 0;
  for (; prompt.size() > session.max_tokens(); prompt = prompt.subspan(session.max_tokens())) {
    if (Status status = feed(prompt.first(session.max_tokens()), 0); !status.ok()) return status.error();
    if (options.on_fed) options.on_fed(fed += session.max_tokens());
  }
  if (Status status = feed(prompt, options.max_new_tokens); !status.ok()) return status.error();
  std::vector<int32_t> tokens;
  while (!result.ids.empty()) {
    sampler.took(result.ids);
    if (options.not_finite && result.finite[0] < result.ids.size()) *options.not_finite = true;
    size_t wanted = 0;
    bool more = true;
    while (more && wanted < result.ids.size()) {
      tokens.push_back(result.ids[wanted++]);
      more = !options.on_token || options.on_token(tokens.back());
    }
    if (options.samples) {
      add_samples(result, 0, options.sampling, vocab, *options.samples);
      options.samples->resize(tokens.size());
    }
    session.set_position(session.position() - static_cast<uint32_t>(result.ids.size() - wanted));
    const bool stop = std::ranges::find(options.stop_ids, tokens.back()) != options.stop_ids.end();
    if (!more || stop || tokens.size() == options.max_new_tokens) break;
    const int32_t last = tokens.back();
    if (Status status = feed({&last, 1}, options.max_new_tokens - tokens.size()); !status.ok())
      return status.error();
  }
  return tokens;
}

}  // namespace mkrt
