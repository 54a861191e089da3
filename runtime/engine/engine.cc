#include "runtime/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>

namespace mkrt {
namespace {

// Returns the most positions that a request may need, or the error of a request that can never run.
Result<uint32_t> longest_of(const Request& request, const BatchLimits& limits) {
  const auto error = [&](std::string_view field, const std::string& message) {
    return Error{fmt::format("{}: error: {}: {}", request.name, field, message)};
  };
  const std::vector<int32_t>& prompt = request.prompt;
  if (prompt.empty()) return error("prompt", "is empty, expected at least one token");
  for (size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] < 0 || static_cast<uint32_t>(prompt[i]) >= limits.vocab)
      return error("prompt",
                   fmt::format("token {} has the id {}, expected 0 to {}", i, prompt[i], limits.vocab - 1));
  if (request.max_new_tokens == 0) return error("max_new_tokens", "found 0, expected 1 or more");
  if (const Status status = check_sampling(request.sampling); !status.ok()) {
    std::string message = status.error().message;
    return Error{fmt::format("{}: error: {}", request.name, message.replace(message.find(": error"), 7, ""))};
  }
  const uint64_t positions = prompt.size() + request.max_new_tokens - 1;
  const std::string found = fmt::format("{} tokens and {} new ones", prompt.size(), request.max_new_tokens);
  if (positions > limits.context)
    return error("prompt",
                 fmt::format("{} need {} positions, the context has {}", found, positions, limits.context));
  const uint64_t pages = pages_for(positions, limits.page_size);
  if (pages > limits.pages)
    return error("prompt", fmt::format("{} need {} pages of {} positions, the cache has {}", found, pages,
                                       limits.page_size, limits.pages));
  return static_cast<uint32_t>(positions);
}

Outcome outcome_of(Sequence& request, FinishReason reason, std::string error = {}) {
  return {.id = request.id,
          .new_ids = {request.tokens.begin() + request.prompt, request.tokens.end()},
          .samples = std::move(request.samples),
          .reason = reason,
          .error = std::move(error)};
}

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kError:
      return "error";
  }
  return "";
}

Engine::Engine(Stepper& stepper, EngineOptions options, const BatchLimits& limits, PagePool pool)
    : stepper_(&stepper), options_(std::move(options)), limits_(limits), pool_(std::move(pool)) {
  tokens_.reserve(limits.max_tokens);
  for (std::vector<int32_t>* list : {&row_begin_, &kv_len_, &page_begin_})
    list->reserve(limits.max_requests + 1);
  page_index_.reserve(limits.pages);
  samples_.reserve(limits.max_requests);
  result_.begin.reserve(limits.max_requests + 1);
  result_.ids.reserve(limits.max_requests);
}

Result<Engine> Engine::open(Stepper& stepper, EngineOptions options) {
  const BatchLimits limits = stepper.limits();
  for (const auto& [name, value] : {std::pair{"max_tokens", limits.max_tokens},
                                    {"max_requests", limits.max_requests},
                                    {"context", limits.context},
                                    {"vocab", limits.vocab}})
    if (value == 0) return Error{fmt::format("{}: error: found 0, expected 1 or more", name)};
  Result<PagePool> pool = PagePool::create(limits.page_size, limits.pages);
  if (!pool.ok()) return pool.error();
  return Engine(stepper, std::move(options), limits, std::move(pool.value()));
}

uint64_t Engine::submit(Request request) {
  const uint64_t id = next_id_++;
  if (request.name.empty()) request.name = fmt::format("request {}", id);
  Result<uint32_t> longest = longest_of(request, limits_);
  if (fault_ && longest.ok()) longest = *fault_;
  if (!longest.ok()) {
    outcomes_.push_back({.id = id, .new_ids = {}, .samples = {}, .error = longest.error().message});
    return id;
  }
  Sequence sequence;
  sequence.id = id;
  sequence.sampler = Sampler(request.sampling, request.prompt, limits_.vocab);
  sequence.tokens = std::move(request.prompt);
  sequence.prompt = static_cast<uint32_t>(sequence.tokens.size());
  sequence.longest = longest.value();
  later_.emplace(std::max(request.arrive_at_step, clock_), std::move(sequence));
  return id;
}

Status Engine::step() {
  if (idle()) return {};
  if (roster_.requests.empty()) clock_ = std::max(clock_, later_.begin()->first);
  const auto arrived = later_.upper_bound(clock_);
  for (auto at = later_.begin(); at != arrived; ++at) {
    Sequence& request = at->second;
    request.tokens.reserve(request.longest + size_t{1});
    request.pages.reserve(pages_for(request.longest, limits_.page_size));
    roster_.requests.push_back(std::move(request));
  }
  later_.erase(later_.begin(), arrived);
  const Status status = launch();
  if (!status.ok()) fail_all(status.error());
  return status;
}

Status Engine::launch() {
  const Result<uint32_t> evicted =
      plan_step(roster_, pool_, {limits_.max_tokens, limits_.max_requests, options_.eviction});
  if (!evicted.ok()) return evicted.error();
  const Result<Batch> batch = fill_batch();
  if (!batch.ok()) return batch.error();
  if (Status status = stepper_->step(batch.value(), result_); !status.ok()) return status;
  clock_ += result_.steps;
  ++stats_.launches;
  stats_.steps += result_.steps;
  stats_.rows += tokens_.size();
  stats_.evictions += evicted.value();
  return take_tokens();
}

// Returns the number of steps of the next launch. A prompt with rows left, and a request that arrives, wait
// for one step at most.
uint32_t Engine::steps_of_launch() const {
  uint64_t steps = std::max(1u, options_.steps_per_launch);
  if (!later_.empty()) steps = std::min(steps, later_.begin()->first - clock_);
  for (size_t i = 0; i < roster_.running; ++i)
    if (roster_.requests[i].pending() > roster_.requests[i].rows) steps = 1;
  return static_cast<uint32_t>(steps);
}

// Lays out the planned rows, request after request. A request that samples several tokens gets the pages for
// them, as far as pages are free.
Result<Batch> Engine::fill_batch() {
  const uint32_t steps = steps_of_launch();
  tokens_.clear();
  row_begin_.assign(1, 0);
  kv_len_.clear();
  page_begin_.assign(1, 0);
  page_index_.clear();
  samples_.clear();
  for (size_t i = 0; i < roster_.running; ++i) {
    Sequence& r = roster_.requests[i];
    const uint32_t limit = r.pending() == r.rows ? std::min(steps, r.longest + 1 - r.fed - r.rows) : 0;
    if (limit > 1)
      if (Status status = run_ahead(r, limit - 1, pool_); !status.ok()) return status.error();
    const auto begin = r.tokens.begin() + r.fed;
    tokens_.insert(tokens_.end(), begin, begin + r.rows);
    row_begin_.push_back(static_cast<int32_t>(tokens_.size()));
    kv_len_.push_back(static_cast<int32_t>(r.fed + r.rows));
    page_index_.insert(page_index_.end(), r.pages.begin(), r.pages.end());
    page_begin_.push_back(static_cast<int32_t>(page_index_.size()));
    samples_.push_back(r.sampler.next(limit));
    samples_.back().stop_ids = options_.stop_ids;
  }
  return Batch{tokens_, row_begin_, kv_len_, {page_begin_, page_index_}, samples_};
}

// Hands the sampled tokens to each request whose earlier tokens are all fed. Requests that end with these
// tokens leave.
Status Engine::take_tokens() {
  size_t i = 0;
  const size_t requests = samples_.size();
  for (size_t b = 0; b < requests; ++b) {
    Sequence& r = roster_.requests[i++];
    r.fed += r.rows;
    if (r.pending() > 0) continue;
    const std::span<const int32_t> sampled = result_.of(b);
    const auto further = static_cast<uint32_t>(sampled.size()) - 1;  // the last one is not fed yet
    r.fed += further;
    stats_.rows += further;
    r.tokens.insert(r.tokens.end(), sampled.begin(), sampled.end());
    const int32_t token = sampled.back();
    if (const MkSampling& sampling = r.sampler.sampling(); sampling.logprobs > 0)
      add_samples(result_, b, sampling, limits_.vocab, r.samples);
    r.sampler.took(sampled);
    const bool stop = std::ranges::find(options_.stop_ids, token) != options_.stop_ids.end();
    const bool ends = stop || r.fed == r.longest;
    if (Status status = ends ? forget(r, pool_) : trim(r, pool_); !status.ok()) return status;
    if (!ends) continue;
    outcomes_.push_back(outcome_of(r, stop ? FinishReason::kStop : FinishReason::kLength));
    roster_.requests.erase(roster_.requests.begin() + static_cast<ptrdiff_t>(--i));
    --roster_.running;
  }
  return {};
}

void Engine::fail_all(const Error& error) {
  fault_ = error;
  for (auto& [step, request] : later_) roster_.requests.push_back(std::move(request));
  later_.clear();
  for (Sequence& r : roster_.requests) {
    (void)forget(r, pool_);  // the first error is the one to report
    outcomes_.push_back(outcome_of(r, FinishReason::kError, error.message));
  }
  roster_ = {};
}

std::vector<Outcome> Engine::take_outcomes() {
  return std::exchange(outcomes_, {});
}

}  // namespace mkrt
