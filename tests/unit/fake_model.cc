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

Status FakeModel::step(const Batch& batch, std::span<int32_t> next, std::span<float> logits) {
  if (Status status = check_batch(batch, limits_, seen_); !status.ok()) return status;
  if (next.size() != batch.kv_len.size()) return Error{"fake: error: next has another length than kv_len"};
  if (!logits.empty() && logits.size() != next.size() * limits_.vocab)
    return Error{"fake: error: logits have another size than requests by vocabulary"};
  if (steps.size() == fail_at) return Error{"fake: error: worker 3 waited"};
  const auto list = [](std::span<const int32_t> span) { return std::vector(span.begin(), span.end()); };
  steps.push_back({list(batch.tokens), list(batch.row_begin), list(batch.kv_len), list(batch.pages.index)});
  with_logits.push_back(!logits.empty());
  for (size_t b = 0; b < next.size(); ++b) {
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
    next[b] = fake_next(history, limits_.vocab);
    if (!logits.empty())
      std::ranges::copy(fake_logits(history, limits_.vocab), logits.subspan(b * limits_.vocab).begin());
  }
  return {};
}

}  // namespace mkrt
