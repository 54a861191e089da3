#include "runtime/session/check_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/session/pages.h"
#include "runtime/session/sample.h"

namespace mkrt {
namespace {

template <class... Args>
Error fault(fmt::format_string<Args...> format, Args&&... args) {
  return Error{"step: error: " + fmt::format(format, std::forward<Args>(args)...)};
}

template <class... Args>
Error request_fault(size_t request, fmt::format_string<Args...> format, Args&&... args) {
  return fault("request {}: {}", request, fmt::format(format, std::forward<Args>(args)...));
}

Status check_sizes(const Batch& batch, const BatchLimits& limits) {
  const size_t requests = batch.kv_len.size();
  if (requests < 1 || requests > limits.max_requests)
    return fault("kv_len: found {} requests, expected 1 to {}", requests, limits.max_requests);
  if (batch.row_begin.size() != requests + 1)
    return fault("row_begin: found {} entries, expected {} for {} requests", batch.row_begin.size(),
                 requests + 1, requests);
  if (batch.pages.begin.size() != requests + 1)
    return fault("pages.begin: found {} entries, expected {} for {} requests", batch.pages.begin.size(),
                 requests + 1, requests);
  if (batch.tokens.size() > limits.max_tokens)
    return fault("tokens: found {} rows, expected 1 to {}", batch.tokens.size(), limits.max_tokens);
  if (!batch.samples.empty() && batch.samples.size() != requests)
    return fault("samples: found {} entries, expected none or {}, one for each request", batch.samples.size(),
                 requests);
  if (batch.row_begin[0] != 0) return request_fault(0, "row_begin: found {}, expected 0", batch.row_begin[0]);
  return {};
}

// Checks that the launch before has the sample that a row of request b asks for.
Status check_last_sample(size_t b, int32_t row, uint32_t from, SampledBefore sampled) {
  if (from >= sampled.size())
    return request_fault(b, "tokens: row {} is the sample of request {} of the step before, which has {}",
                         row, from, sampled.empty() ? "none" : fmt::format("{} requests", sampled.size()));
  if (sampled[from] == 0)
    return request_fault(
        b, "tokens: row {} is the sample of request {} of the step before, which sampled nothing", row, from);
  return {};
}

// Checks request b's rows. Requires check_sizes. Afterwards the rows of requests 0 to b lie within `tokens`.
Status check_rows(const Batch& batch, const BatchLimits& limits, size_t b, SampledBefore sampled) {
  const int32_t begin = batch.row_begin[b], end = batch.row_begin[b + 1];
  const auto rows = static_cast<int64_t>(batch.tokens.size());
  const bool last = b + 1 == batch.kv_len.size();
  if (end <= begin)
    return request_fault(b, "row_begin: ends at {}, expected at least {}", end, begin + int64_t{1});
  if (end > rows || (last && end != rows))
    return request_fault(b, "row_begin: ends at {}, expected {}{}, the rows of tokens", end,
                         last ? "" : "at most ", rows);
  for (int32_t row = begin; row < end; ++row) {
    const int32_t id = batch.tokens[static_cast<size_t>(row)];
    if (id < 0 && !sampled.empty()) {
      Status status = check_last_sample(b, row - begin, request_of_sample(id), sampled);
      if (!status.ok()) return status;
    } else if (id < 0 || static_cast<uint32_t>(id) >= limits.vocab) {
      return request_fault(b, "tokens: row {} has the id {}, expected 0 to {}", row - begin, id,
                           limits.vocab - 1);
    }
  }
  return {};
}

// Checks request b's kv_len. Requires check_rows. Afterwards b's pages hold its positions.
Status check_length(const Batch& batch, const BatchLimits& limits, size_t b) {
  const int64_t begin = batch.pages.begin[b], end = batch.pages.begin[b + 1];
  const auto entries = static_cast<int64_t>(batch.pages.index.size());
  if (begin < 0 || end < begin || end > entries)
    return request_fault(b, "pages.begin: found {} to {}, expected to rise from 0 to at most {}", begin, end,
                         entries);
  const int64_t length = batch.kv_len[b], rows = batch.row_begin[b + 1] - batch.row_begin[b];
  if (length < rows)
    return request_fault(b, "kv_len: found {}, expected at least {}, its rows", length, rows);
  if (length > limits.context)
    return request_fault(b, "kv_len: found {}, expected at most {}, the context", length, limits.context);
  if (length > (end - begin) * limits.page_size)
    return request_fault(b, "kv_len: found {}, expected at most {}, the positions of its {} pages", length,
                         (end - begin) * limits.page_size, end - begin);
  return {};
}

// Returns the first request that uses a page. Requires check_length of the requests up to it.
size_t first_user(const Batch& batch, const BatchLimits& limits, int32_t page) {
  for (size_t b = 0; b < batch.kv_len.size(); ++b) {
    const auto used =
        batch.pages.index.subspan(static_cast<size_t>(batch.pages.begin[b]), pages_used(batch, limits, b));
    if (std::find(used.begin(), used.end(), page) != used.end()) return b;
  }
  return 0;
}

Status check_pages(const Batch& batch, const BatchLimits& limits, size_t b, PagesSeen& seen) {
  const uint64_t pages = pages_used(batch, limits, b);
  const auto index = batch.pages.index.subspan(static_cast<size_t>(batch.pages.begin[b]), pages);
  const auto read = static_cast<uint32_t>(batch.kv_len[b] - (batch.row_begin[b + 1] - batch.row_begin[b]));
  const size_t first_written = read / limits.page_size;
  for (size_t i = 0; i < pages; ++i) {
    if (index[i] < 0 || static_cast<uint32_t>(index[i]) >= limits.pages)
      return request_fault(b, "pages.index: entry {} is page {}, expected 0 to {}", i, index[i],
                           limits.pages - 1);
    const bool writes = i >= first_written;
    uint8_t& mark = seen.step[static_cast<size_t>(index[i])];
    if (mark == seen.now + 1 || (mark == seen.now && writes))
      return request_fault(b,
                           "pages.index: entry {} is page {}, which request {} has already, expected another",
                           i, index[i], first_user(batch, limits, index[i]));
    mark = static_cast<uint8_t>(seen.now + writes);
  }
  return {};
}

bool is_bias(float value) {
  return std::fabs(value) <= kMaxBias || value == -std::numeric_limits<float>::infinity();
}

// Checks that biases ascend by id and have values in range, and that they leave an id.
Status check_biases(std::span<const MkBias> biases, const BatchLimits& limits, size_t b) {
  if (biases.size() > limits.vocab)
    return request_fault(b, "biases: found {}, expected at most {}, the ids that there are", biases.size(),
                         limits.vocab);
  int64_t before = -1;
  size_t forbidden = 0;
  for (size_t i = 0; i < biases.size(); ++i) {
    const MkBias& bias = biases[i];
    if (bias.id >= limits.vocab)
      return request_fault(b, "biases: entry {} has the id {}, expected 0 to {}", i, bias.id,
                           limits.vocab - 1);
    if (bias.id <= before)
      return request_fault(b, "biases: entry {} has the id {}, expected more than {}, the id before", i,
                           bias.id, before);
    for (const float value : {bias.before, bias.after})
      if (!is_bias(value))
        return request_fault(b, "biases: entry {}, id {}, has the value {}, expected -{} to {}, or -inf", i,
                             bias.id, value, kMaxBias, kMaxBias);
    before = bias.id;
    forbidden += std::isinf(bias.before) || std::isinf(bias.after);
  }
  if (forbidden == limits.vocab)
    return request_fault(b, "biases: found {} forbidden ids, expected at most {}", forbidden,
                         limits.vocab - 1);
  return {};
}

Status check_allowed(std::span<const uint32_t> allowed, const BatchLimits& limits, size_t b) {
  if (allowed.empty()) return {};
  const size_t words = (limits.vocab + size_t{31}) / 32;
  if (allowed.size() != words)
    return request_fault(b, "allowed: found {} words, expected none or {}, a bit for each id", allowed.size(),
                         words);
  const uint32_t bits_of_last = ~0u >> (31 - (limits.vocab - 1) % 32);
  const bool any = std::ranges::any_of(allowed.first(words - 1), [](uint32_t word) { return word != 0; });
  if (!any && (allowed[words - 1] & bits_of_last) == 0)
    return request_fault(b, "allowed: found no id, expected at least one of {}", limits.vocab);
  return {};
}

Status check_samples(const Batch& batch, const BatchLimits& limits, size_t b) {
  const Samples samples = batch.samples_of(b);
  if (const Status status = check_sampling(samples.sampling); !status.ok()) {
    std::string message = status.error().message;
    return request_fault(b, "{}", message.replace(message.find(": error"), 7, ""));
  }
  const size_t words = samples.sampling.repetition_penalty != 1 ? (limits.vocab + size_t{31}) / 32 : 0;
  if (samples.seen.size() != words)
    return request_fault(b, "seen: found {} words, expected {}{}", samples.seen.size(), words,
                         words == 0 ? " without a repetition_penalty" : ", a bit for each id");
  if (samples.limit > kMaxSteps)
    return request_fault(b, "limit: found {}, expected at most {}", samples.limit, kMaxSteps);
  if (samples.stop_ids.size() > limits.vocab)
    return request_fault(b, "stop_ids: found {}, expected at most {}, the ids that there are",
                         samples.stop_ids.size(), limits.vocab);
  if (Status status = check_biases(samples.biases, limits, b); !status.ok()) return status;
  return check_allowed(samples.allowed, limits, b);
}

Status check_scored(const Batch& batch, const BatchLimits& limits) {
  for (size_t i = 0; i < batch.scored.size(); ++i) {
    const ScoredRow& of = batch.scored[i];
    if (of.row < 0 || static_cast<size_t>(of.row) >= batch.tokens.size())
      return fault("scored: entry {} has the row {}, expected 0 to {}", i, of.row, batch.tokens.size() - 1);
    if (of.id < 0 || static_cast<uint32_t>(of.id) >= limits.vocab)
      return fault("scored: entry {} has the id {}, expected 0 to {}", i, of.id, limits.vocab - 1);
    if (of.top > kMaxTop)
      return fault("scored: entry {} asks for {} likeliest ids, expected at most {}", i, of.top, kMaxTop);
  }
  if (!batch.scored.empty() && batch.steps() > 1)
    return fault("scored: found {} rows in a launch of {} steps, expected none", batch.scored.size(),
                 batch.steps());
  return {};
}

}  // namespace

uint64_t page_entries(const BatchLimits& limits) {
  const uint64_t of_context = pages_for(limits.context, limits.page_size);
  return limits.max_requests * std::min<uint64_t>(limits.pages, of_context);
}

uint64_t pages_used(const Batch& batch, const BatchLimits& limits, size_t b) {
  const uint64_t length = static_cast<uint64_t>(batch.kv_len[b]), limit = batch.samples_of(b).limit;
  const uint64_t positions = std::min<uint64_t>(limits.context, length + (limit > 1 ? limit - 1 : 0));
  const auto given = static_cast<uint64_t>(batch.pages.begin[b + 1] - batch.pages.begin[b]);
  return std::min(given, pages_for(positions, limits.page_size));
}

Status check_batch(const Batch& batch, const BatchLimits& limits, PagesSeen& seen, SampledBefore sampled) {
  constexpr uint8_t kLast = 253;
  if (seen.step.size() != limits.pages || seen.now >= kLast) {
    seen.step.assign(limits.pages, 0);
    seen.now = 1;
  } else {
    seen.now += 2;
  }
  if (Status status = check_sizes(batch, limits); !status.ok()) return status;
  for (size_t b = 0; b < batch.kv_len.size(); ++b) {
    if (Status status = check_rows(batch, limits, b, sampled); !status.ok()) return status;
    if (Status status = check_length(batch, limits, b); !status.ok()) return status;
    if (Status status = check_pages(batch, limits, b, seen); !status.ok()) return status;
    if (Status status = check_samples(batch, limits, b); !status.ok()) return status;
  }
  return check_scored(batch, limits);
}

}  // namespace mkrt
