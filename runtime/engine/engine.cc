#include "runtime/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>

namespace mkrt {
namespace {

// Returns a request's own stop ids and others, each once.
std::vector<int32_t> with_own_stops(const Request& request, std::span<const int32_t> others) {
  std::vector<int32_t> ids = request.stop_ids;
  ids.insert(ids.end(), others.begin(), others.end());
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

// Returns pages that hold nothing. Errors: those of PagePool::create.
Result<SharedPages> open_pages(const BatchLimits& limits, bool prefix_cache) {
  Result<PagePool> pool = PagePool::create(limits.page_size, limits.pages);
  if (!pool.ok()) return pool.error();
  std::optional<PrefixCache> cache;
  if (prefix_cache) cache.emplace(limits.page_size, limits.pages);
  return SharedPages(std::move(pool.value()), std::move(cache));
}

}  // namespace

Engine::Engine(Stepper& stepper, EngineOptions options, const BatchLimits& limits, SharedPages pages)
    : stepper_(&stepper), options_(std::move(options)), limits_(limits), pages_(std::move(pages)) {
  tokens_.reserve(limits.max_tokens);
  for (std::vector<int32_t>* list : {&row_begin_, &kv_len_, &page_begin_})
    list->reserve(limits.max_requests + 1);
  page_index_.reserve(page_entries(limits));
  samples_.reserve(limits.max_requests);
  roster_.running.reserve(limits.max_requests);
  result_.begin.reserve(limits.max_requests + 1);
  result_.ids.reserve(limits.max_requests);
  result_.finite.reserve(limits.max_requests);
}

Result<Engine> Engine::open(Stepper& stepper, EngineOptions options) {
  const BatchLimits limits = stepper.limits();
  for (const auto& [name, value] : {std::pair{"max_tokens", limits.max_tokens},
                                    {"max_requests", limits.max_requests},
                                    {"context", limits.context},
                                    {"vocab", limits.vocab}})
    if (value == 0) return Error{fmt::format("{}: error: found 0, expected 1 or more", name)};
  Result<SharedPages> pages = open_pages(limits, options.prefix_cache);
  if (!pages.ok()) return pages.error();
  // An id outside the vocabulary is never sampled.
  std::erase_if(options.stop_ids,
                [&](int32_t id) { return id < 0 || static_cast<uint32_t>(id) >= limits.vocab; });
  return Engine(stepper, std::move(options), limits, std::move(pages.value()));
}

uint64_t Engine::submit(Request request) {
  const uint64_t id = next_id_++;
  if (request.name.empty()) request.name = fmt::format("request {}", id);
  Result<uint32_t> longest = positions_of(request, limits_);
  const std::vector<int32_t> end_ids = with_own_stops(request, options_.stop_ids);
  if (const Status status = check_bias(request.bias, end_ids, limits_.vocab); longest.ok() && !status.ok())
    longest = error_of(request, status);
  if (fault_ && longest.ok()) longest = *fault_;
  if (!longest.ok()) {
    outcomes_.push_back({.id = id,
                         .new_ids = {},
                         .samples = {},
                         .error = longest.error().message,
                         .error_kind = longest.error().kind});
    return id;
  }
  Sequence sequence;
  sequence.id = id;
  sequence.order.priority = request.priority;
  sequence.stream = request.stream;
  sequence.prompt_logprobs = request.prompt_logprobs;
  sequence.prompt_only = request.prompt_only;
  sequence.stop_ids = request.ignore_engine_stops ? with_own_stops(request, {}) : end_ids;
  sequence.sampler = Sampler(request.sampling, request.bias, request.prompt, end_ids, limits_.vocab);
  sequence.tokens = std::move(request.prompt);
  sequence.prompt = static_cast<uint32_t>(sequence.tokens.size());
  sequence.longest = longest.value();
  later_.emplace(std::max(request.arrive_at_step, clock_), std::move(sequence));
  return id;
}

bool Engine::cancel(uint64_t id) {
  const auto named = [id](const auto& entry) { return entry.second.id == id; };
  const auto running = std::ranges::find(roster_.running, id, &Sequence::id);
  if (running != roster_.running.end()) {
    end(*running, FinishReason::kCancelled);
    roster_.running.erase(running);
    return true;
  }
  const auto waiting = std::ranges::find_if(roster_.waiting, named);
  if (waiting != roster_.waiting.end()) {
    end(waiting->second, FinishReason::kCancelled);
    roster_.waiting.erase(waiting);
    return true;
  }
  const auto later = std::ranges::find_if(later_, named);
  if (later == later_.end()) return false;
  end(later->second, FinishReason::kCancelled);
  later_.erase(later);
  return true;
}

Status Engine::step() {
  if (idle()) return {};
  if (interrupted_) {
    fail_all({"step: error: no memory of the host in an earlier launch", ErrorKind::kNoMemory});
    interrupted_ = false;
    return *fault_;
  }
  interrupted_ = true;  // until the launch ends without an exception
  take_arrivals();
  Status status = go_on(launch());
  interrupted_ = false;
  return status;
}

Status Engine::check() {
  if (!fault_) return go_on(stepper_->check());
  if (!stepper_->recover().ok()) return *fault_;
  start_over(*std::exchange(fault_, {}));
  return {};
}

// Recovers from an error of the stepper, or ends all requests with it.
Status Engine::go_on(const Status& status) {
  if (status.ok()) return status;
  if (stepper_->recover().ok()) {
    start_over(status.error());
    return {};
  }
  fail_all(status.error());
  return status;
}

// Lets the running requests wait again, with all pages free.
void Engine::start_over(const Error& error) {
  pages_ = open_pages(limits_, options_.prefix_cache).value();
  ++stats_.recoveries;
  for (Sequence& request : roster_.running) {
    request.pages.clear();
    request.fed = request.rows = request.kept_pages = 0;
    if (++request.losses == kMaxLosses)
      end(request, FinishReason::kError, error);
    else
      roster_.waiting.emplace(request.order, std::move(request));
  }
  roster_.running.clear();
}

// Makes waiting requests of those whose step has come.
void Engine::take_arrivals() {
  if (roster_.running.empty() && roster_.waiting.empty()) clock_ = std::max(clock_, later_.begin()->first);
  const auto arrived = later_.upper_bound(clock_);
  for (auto at = later_.begin(); at != arrived; at = later_.erase(at)) {
    Sequence& request = at->second;
    request.order.arrival = arrivals_++;
    request.tokens.reserve(request.longest + size_t{1});
    request.pages.reserve(pages_for(request.longest, limits_.page_size));
    roster_.waiting.emplace(request.order, std::move(request));
  }
}

EngineStats Engine::stats() const {
  EngineStats stats = stats_;
  stats.running = static_cast<uint32_t>(roster_.running.size());
  stats.waiting = static_cast<uint32_t>(roster_.waiting.size() + later_.size());
  stats.pages = limits_.pages;
  stats.pages_used = limits_.pages - free_pages();
  return stats;
}

// Gives back a request's pages and makes its outcome.
void Engine::end(Sequence& request, FinishReason reason, const Error& error) {
  (void)forget(request, pages_);  // fails by a bug only, which the next plan reports
  outcomes_.push_back({.id = request.id,
                       .new_ids = {request.tokens.begin() + request.prompt, request.tokens.end()},
                       .samples = std::move(request.samples),
                       .prompt_samples = std::move(request.prompt_samples),
                       .reason = reason,
                       .error = error.message,
                       .error_kind = error.kind,
                       .cached_tokens = request.cached_tokens});
}

void Engine::fail_all(const Error& error) {
  fault_ = error;
  const auto fail = [&](Sequence& request) { end(request, FinishReason::kError, error); };
  for (Sequence& request : roster_.running) fail(request);
  for (auto& [order, request] : roster_.waiting) fail(request);
  for (auto& [step, request] : later_) fail(request);
  roster_ = {};
  later_.clear();
}

std::vector<Outcome> Engine::take_outcomes() {
  return std::exchange(outcomes_, {});
}

std::vector<Progress> Engine::take_progress() {
  return std::exchange(progress_, {});
}

}  // namespace mkrt
