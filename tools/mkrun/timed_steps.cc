#include "tools/mkrun/timed_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/session/pages.h"

namespace mkrt {
namespace {

constexpr uint32_t kPageSize = CacheOptions{}.page_size;

// Returns the pages that one request of a timed launch needs.
uint64_t request_pages(const Arguments& a, uint32_t context) {
  return pages_for(uint64_t{context} + a.steps_per_launch - 1, kPageSize);
}

uint64_t cache_pages(const Arguments& a) {
  if (a.positions > 0) return pages_for(a.positions, kPageSize);
  return *std::max_element(a.batches.begin(), a.batches.end()) *
         request_pages(a, *std::max_element(a.contexts.begin(), a.contexts.end()));
}

std::vector<int32_t> some_tokens(uint32_t count, uint64_t vocab, uint32_t first = 0) {
  std::vector<int32_t> tokens(count);
  for (uint32_t i = 0; i < count; ++i)
    tokens[i] = static_cast<int32_t>((uint64_t{first + i} * 7919 + 17) % vocab);
  return tokens;
}

// EqualRequests is a batch of requests with equal numbers of rows, equal positions, and separate pages. The
// pages suffice for launches of `steps` steps.
struct EqualRequests {
  std::vector<int32_t> tokens, row_begin{0}, kv_len, page_begin{0}, page_index;
  std::vector<Samples> samples;
  StepResult result;

  EqualRequests(const Session& session, uint32_t requests, uint32_t rows, uint32_t context,
                uint32_t steps = 1)
      : tokens(some_tokens(requests * rows, session.manifest().vocab, context)), samples(requests) {
    const auto pages = static_cast<int32_t>(pages_for(context + steps - 1, session.limits().page_size));
    const auto apart = static_cast<int32_t>(session.limits().pages / requests);
    for (uint32_t b = 0; b < requests; ++b) {
      row_begin.push_back(static_cast<int32_t>((b + 1) * rows));
      kv_len.push_back(static_cast<int32_t>(context));
      samples[b].limit = steps;
      for (int32_t p = 0; p < pages; ++p) page_index.push_back(static_cast<int32_t>(b) * apart + p);
      page_begin.push_back(static_cast<int32_t>(page_index.size()));
    }
  }
  Batch batch() const { return {tokens, row_begin, kv_len, {page_begin, page_index}, samples}; }
};

// Checks a timed step. Errors: it is larger than the artefact's; its context is shorter than its tokens.
Status check_step(const Arguments& a, const Session& session, const TimedStep& step) {
  const auto [batch, count, context] = step;
  const auto check = [](const char* flag, uint32_t found, uint32_t min, uint32_t max,
                        const std::string& at) -> Status {
    if (found >= min && found <= max) return {};
    return Error{fmt::format("{}: error: found {}, expected {} to {}{}", flag, found, min, max, at)};
  };
  const uint32_t steps = a.steps_per_launch, positions = session.context();
  Status status = check("--batch", batch, 1, session.limits().max_requests, "");
  if (status.ok())
    status = check("--tokens", count, 1, session.max_tokens() / batch, fmt::format(" at --batch {}", batch));
  if (status.ok()) status = check("--steps-per-launch", steps, 1, positions, "");
  if (!status.ok()) return status;
  return check("--contexts", context, count, positions - (steps - 1),
               fmt::format(" at --tokens {} and --steps-per-launch {}", count, steps));
}

}  // namespace

Result<CacheSpace> random_cache(const Arguments& a, const Manifest& m, Device& device) {
  const auto pages = static_cast<uint32_t>(cache_pages(a));
  const uint64_t bytes = cache_piece_bytes(m, best_form(m), kPageSize, pages) * m.caches.size();
  const Result<uint64_t> memory = device.allocate(bytes);
  if (!memory.ok()) return memory.error();
  ManifestWeight values;
  values.element = m.caches[0].element;
  values.cols = 1;
  std::vector<std::byte> block(std::min(bytes, uint64_t{64} << 20));
  if (Status status = random_weights(a.random_seed + 1)(values, block); !status.ok()) return status.error();
  for (uint64_t at = 0; at < bytes; at += block.size()) {
    const auto piece = std::span(block).first(std::min<uint64_t>(block.size(), bytes - at));
    if (Status status = device.write(memory.value() + at, piece); !status.ok()) return status.error();
  }
  return place_caches(m, best_form(m), kPageSize, pages, memory.value());
}

Result<std::vector<TimedStep>> timed_steps(const Arguments& a, const Session& session) {
  std::vector<TimedStep> steps;
  if (a.steps == 0) return steps;
  for (const uint32_t batch : a.batches)
    for (const uint32_t count : a.tokens)
      for (const uint32_t context : a.contexts) {
        if (batch * request_pages(a, context) > cache_pages(a)) continue;
        steps.push_back({batch, count, context});
        if (Status status = check_step(a, session, steps.back()); !status.ok()) return status.error();
      }
  return steps;
}

Result<nlohmann::json> time_step(const Arguments& a, Session& session, const TimedStep& step) {
  const auto [batch, count, context] = step;
  const uint32_t vocab = static_cast<uint32_t>(session.manifest().vocab);
  EqualRequests requests(session, batch, count, context, a.steps_per_launch);
  EqualRequests single(session, batch, count, context);
  std::vector<float> logits(requests.tokens.size() * vocab);
  std::vector<double> us;
  std::string hash;
  uint32_t different = 0;
  for (uint32_t i = 0; i < a.warm_up + a.steps; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const Status stepped = session.step(requests.batch(), requests.result);
    const auto end = std::chrono::steady_clock::now();
    if (!stepped.ok()) return stepped.error();
    if (i >= a.warm_up)
      us.push_back(std::chrono::duration<double, std::micro>(end - begin).count() / a.steps_per_launch);
    // Logits are not read after every launch, because the read takes longer than the step.
    if (i % a.hash_every != 0 && i + 1 != a.warm_up + a.steps) continue;
    if (Status again = session.step(single.batch(), single.result, logits.data()); !again.ok())
      return again.error();
    const std::string now =
        hash_hex({reinterpret_cast<const char*>(logits.data()), logits.size() * sizeof(float)});
    different += !hash.empty() && now != hash;
    hash = now;
  }
  const bool finite = std::all_of(logits.begin(), logits.end(), [](float v) { return std::isfinite(v); });
  return nlohmann::json{{"context", context},
                        {"batch", batch},
                        {"tokens", count},
                        {"steps_per_launch", a.steps_per_launch},
                        {"us", us},
                        {"hash", hash},
                        {"different", different},
                        {"finite", finite}};
}

}  // namespace mkrt
