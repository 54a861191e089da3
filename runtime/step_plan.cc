#include "runtime/step_plan.h"

#include <algorithm>
#include <ranges>

namespace mkrt {
namespace {

auto running(Roster& roster) {
  return roster.requests | std::views::take(roster.running);
}

// Shares out the rows of a step among the running requests. Returns how many are left.
uint32_t share_rows(Roster& roster, uint32_t rows) {
  for (Sequence& r : running(roster)) {
    r.rows = r.pending() == 1 ? 1 : 0;
    rows -= r.rows;
  }
  for (Sequence& r : running(roster)) {
    if (r.pending() == 1) continue;
    r.rows = std::min(r.pending(), rows);
    rows -= r.rows;
  }
  return rows;
}

uint64_t missing_pages(const Sequence& request, const PagePool& pool) {
  return pages_for(uint64_t{request.fed} + request.rows, pool.page_size()) - request.pages.size();
}

// Oldest first, so that a request that gives up its pages was not looked at yet.
Result<uint32_t> allocate_pages(Roster& roster, PagePool& pool, Eviction eviction) {
  uint32_t evicted = 0;
  for (size_t i = 0; i < roster.running; ++i) {
    Sequence& request = roster.requests[i];
    const uint64_t missing = missing_pages(request, pool);
    while (eviction == Eviction::kRecompute && missing > pool.available() && i < roster.running) {
      if (Status status = forget(roster.requests[--roster.running], pool); !status.ok())
        return status.error();
      ++evicted;
    }
    if (i == roster.running) break;  // it was the youngest itself
    if (Status status = pool.allocate(missing, request.pages); !status.ok()) return status.error();
  }
  return evicted;
}

// Pages that are kept for a request while it runs, whether it has them yet or not.
uint64_t claim(const Sequence& request, const PagePool& pool, Eviction eviction) {
  return pages_for(eviction == Eviction::kNone ? request.longest : request.tokens.size(), pool.page_size());
}

Status admit(Roster& roster, PagePool& pool, const StepRules& rules, uint32_t rows) {
  const uint32_t places = std::min(rules.max_requests, rules.max_tokens);
  if (rows == 0 || roster.running >= places) return {};
  uint64_t claimed = 0;
  for (const Sequence& r : running(roster)) claimed += claim(r, pool, rules.eviction);
  while (rows > 0 && roster.running < places && roster.running < roster.requests.size()) {
    Sequence& request = roster.requests[roster.running];
    claimed += claim(request, pool, rules.eviction);
    if (claimed > pool.pages()) break;
    request.rows = std::min(request.pending(), rows);
    rows -= request.rows;
    if (Status status = pool.allocate(missing_pages(request, pool), request.pages); !status.ok())
      return status;
    ++roster.running;
  }
  return {};
}

}  // namespace

Status forget(Sequence& request, PagePool& pool) {
  const Status status = pool.release(request.pages);
  request.pages.clear();
  request.fed = request.rows = 0;
  return status;
}

Result<uint32_t> plan_step(Roster& roster, PagePool& pool, const StepRules& rules) {
  const uint32_t rows = share_rows(roster, rules.max_tokens);
  const Result<uint32_t> evicted = allocate_pages(roster, pool, rules.eviction);
  if (!evicted.ok() || evicted.value() > 0) return evicted;
  if (Status status = admit(roster, pool, rules, rows); !status.ok()) return status.error();
  return evicted;
}

}  // namespace mkrt
