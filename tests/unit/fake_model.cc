#include "tests/unit/fake_model.h"

#include <algorithm>
#include <random>

namespace mkrt {
namespace {

constexpr int32_t kNever = -2;  // a position that nothing was written to

uint64_t hash_of(std::span<const int32_t> history) {
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (const int32_t token : history) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x100000001b3;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

int32_t fake_next(std::span<const int32_t> history, uint32_t vocab) {
  return static_cast<int32_t>(hash_of(history) % vocab);
}

std::vector<float> fake_logits(std::span<const int32_t> history, uint32_t vocab) {
  std::vector<float> logits(vocab);
  std::mt19937 random(static_cast<uint32_t>(hash_of(history) >> 16));
  for (float& logit : logits) logit = static_cast<float>(random() % 1000) * 1e-3f;
  logits[static_cast<size_t>(fake_next(history, vocab))] = 1.5f;
  return logits;
}

std::vector<int32_t> fake_generate(std::vector<int32_t> history, uint32_t max_new_tokens,
                                   const std::vector<int32_t>& stop_ids, uint32_t vocab,
                                   const MkSampling& sampling) {
  SeenIds seen((vocab + 31) / 32);
  for (const int32_t id : history) see(seen, static_cast<uint32_t>(id));
  MkSampling now = sampling;
  std::vector<int32_t> tokens;
  while (tokens.size() < max_new_tokens) {
    tokens.push_back(draw(fake_logits(history, vocab), now, seen).id);
    ++now.position;
    see(seen, static_cast<uint32_t>(tokens.back()));
    history.push_back(tokens.back());
    if (std::ranges::find(stop_ids, tokens.back()) != stop_ids.end()) break;
  }
  return tokens;
}

FakeModel::FakeModel(const BatchLimits& limits)
    : limits_(limits), cache_(size_t{limits.pages} * limits.page_size, kNever) {}

Status FakeModel::step(const Batch& batch, StepResult& result) {
  if (Status status = check_batch(batch, limits_, seen_); !status.ok()) return status;
  if (steps.size() == fail_at) return Error{"fake: error: worker 3 waited"};
  const auto list = [](std::span<const int32_t> span) { return std::vector(span.begin(), span.end()); };
  Step& step = steps.emplace_back(
      Step{list(batch.tokens), list(batch.row_begin), list(batch.kv_len), list(batch.pages.index), {}});
  result = {{0}, {}, {}};
  for (size_t b = 0; b < batch.requests(); ++b) {
    const auto rows = batch.tokens.subspan(static_cast<size_t>(batch.row_begin[b]),
                                           static_cast<size_t>(batch.row_begin[b + 1] - batch.row_begin[b]));
    const auto pages = batch.pages.index.subspan(static_cast<size_t>(batch.pages.begin[b]));
    const auto length = static_cast<size_t>(batch.kv_len[b]);
    std::vector<int32_t> history;
    for (size_t p = 0; p < length; ++p) {
      int32_t& slot = cache_[static_cast<size_t>(pages[p / limits_.page_size]) * limits_.page_size +
                             p % limits_.page_size];
      if (p >= length - rows.size()) slot = rows[p - (length - rows.size())];
      history.push_back(slot);
    }
    const Draws draws = batch.draws_of(b);
    step.limits.push_back(draws.limit);
    if (draws.limit > 0) {
      const Drawn drawn = draw(fake_logits(history, limits_.vocab), draws.sampling, draws.seen);
      MkLogprobs logprobs{drawn.logprob, {}, {}};
      for (size_t i = 0; i < drawn.top.size(); ++i) {
        logprobs.top[i] = drawn.top[i].logprob;
        logprobs.top_id[i] = static_cast<uint32_t>(drawn.top[i].id);
      }
      result.ids.push_back(drawn.id);
      result.logprobs.push_back(logprobs);
    }
    result.begin.push_back(static_cast<uint32_t>(result.ids.size()));
  }
  return {};
}

}  // namespace mkrt
