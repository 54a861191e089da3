#include "tests/unit/engine/fake_model.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace mkrt {
namespace {

constexpr int32_t kNever = -2;  // content of a position that was never written

uint64_t hash_of(std::span<const int32_t> history) {
  uint64_t hash = 0x9e3779b97f4a7c15;
  for (const int32_t token : history) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x100000001b3;
    hash ^= hash >> 29;
  }
  return hash;
}

void add(const Sampled& sampled, StepResult& result) {
  result.ids.push_back(sampled.id);
  result.logprobs.push_back(to_abi(sampled));
}

}  // namespace

Request counting_request(size_t prompt, uint32_t max_new_tokens, int32_t first) {
  Request r;
  r.prompt.resize(prompt);
  std::iota(r.prompt.begin(), r.prompt.end(), first);
  r.max_new_tokens = max_new_tokens;
  return r;
}

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
    tokens.push_back(sample(fake_logits(history, vocab), now, {seen}).id);
    ++now.position;
    see(seen, static_cast<uint32_t>(tokens.back()));
    history.push_back(tokens.back());
    if (std::ranges::find(stop_ids, tokens.back()) != stop_ids.end()) break;
  }
  return tokens;
}

FakeModel::FakeModel(const BatchLimits& limits)
    : limits_(limits), cache_(size_t{limits.pages} * limits.page_size, kNever) {}

int32_t& FakeModel::slot(std::span<const int32_t> pages, size_t position) {
  return cache_[static_cast<size_t>(pages[position / limits_.page_size]) * limits_.page_size +
                position % limits_.page_size];
}

// Checks that no other entry of the page table has a page that the launch writes.
Status FakeModel::check_written(const Batch& batch) const {
  std::vector<uint32_t> entries(limits_.pages);
  for (size_t b = 0; b < batch.requests(); ++b)
    for (int32_t i = batch.pages.begin[b]; i < batch.pages.begin[b + 1]; ++i)
      ++entries[static_cast<size_t>(batch.pages.index[static_cast<size_t>(i)])];
  for (size_t b = 0; b < batch.requests(); ++b) {
    const int32_t first = batch.kv_len[b] - (batch.row_begin[b + 1] - batch.row_begin[b]);
    for (int32_t i = first / static_cast<int32_t>(limits_.page_size);
         i < batch.pages.begin[b + 1] - batch.pages.begin[b]; ++i) {
      const int32_t page = batch.pages.index[static_cast<size_t>(batch.pages.begin[b] + i)];
      if (entries[static_cast<size_t>(page)] > 1)
        return Error{"fake: error: page " + std::to_string(page) + " is written and shared"};
    }
  }
  return {};
}

Status FakeModel::recover() {
  if (failures == 0 || vain > 0) {
    vain -= vain > 0;
    return Error{"fake: error: no recovery"};
  }
  if (--failures == 0) fail_at = ~0ull;
  std::ranges::fill(cache_, kNever);
  return {};
}

Status FakeModel::step(const Batch& batch, StepResult& result) {
  if (Status status = check_batch(batch, limits_, seen_); !status.ok()) return status;
  if (Status status = check_written(batch); !status.ok()) return status;
  if (steps.size() == fail_at) return Error{"fake: error: worker 3 waited"};
  const auto list = [](std::span<const int32_t> span) { return std::vector(span.begin(), span.end()); };
  Step& step = steps.emplace_back(
      Step{list(batch.tokens), list(batch.row_begin), list(batch.kv_len), list(batch.pages.index), {}});
  result = {{0}, {}, {}, 1};
  for (size_t b = 0; b < batch.requests(); ++b) {
    const auto rows = batch.tokens.subspan(static_cast<size_t>(batch.row_begin[b]),
                                           static_cast<size_t>(batch.row_begin[b + 1] - batch.row_begin[b]));
    const auto pages = batch.pages.index.subspan(static_cast<size_t>(batch.pages.begin[b]));
    const auto length = static_cast<size_t>(batch.kv_len[b]);
    std::vector<int32_t> history;
    for (size_t p = 0; p < length; ++p) {
      if (p >= length - rows.size()) slot(pages, p) = rows[p - (length - rows.size())];
      history.push_back(slot(pages, p));
    }
    for (const ScoredRow& of : batch.scored) {
      if (of.row < batch.row_begin[b] || of.row >= batch.row_begin[b + 1]) continue;
      const size_t rows_behind = static_cast<size_t>(batch.row_begin[b + 1] - of.row) - 1;
      const auto before = std::span(history).first(length - rows_behind);
      std::vector<float> logits = fake_logits(before, limits_.vocab);
      if (before.back() == nan_behind) std::ranges::fill(logits, NAN);
      result.scored.push_back(to_abi(score(logits, of.id, of.top)));
    }
    const Samples samples = batch.samples_of(b);
    step.limits.push_back(samples.limit);
    MkSampling sampling = samples.sampling;
    SeenIds seen(samples.seen.begin(), samples.seen.end());
    const size_t max = std::min<size_t>(limits_.context, pages_used(batch, limits_, b) * limits_.page_size);
    for (uint32_t n = 0; n < samples.limit; ++n, ++sampling.position) {
      if (n > 0) history.push_back(slot(pages, history.size()) = result.ids.back());
      const Sampled sampled =
          sample(fake_logits(history, limits_.vocab), sampling, {seen, samples.biases, samples.allowed});
      add(sampled, result);
      result.steps = std::max(result.steps, n + 1);
      if (!seen.empty()) see(seen, static_cast<uint32_t>(sampled.id));
      if (history.size() == max || std::ranges::count(samples.stop_ids, sampled.id) > 0) break;
    }
    result.begin.push_back(static_cast<uint32_t>(result.ids.size()));
    const bool lost = b == 0 && steps.size() == lost_at + 1;
    result.finite.push_back(lost ? lost_after : static_cast<uint32_t>(result.of(b).size()));
  }
  return {};
}

}  // namespace mkrt
