#include "runtime/engine/step_plan.h"

#include <algorithm>

namespace mkrt {
namespace {

// Returns the number of pages kept for a running request.
uint64_t claim(const Sequence& request, const PagePool& pool, Eviction eviction) {
  const uint64_t positions = eviction == Eviction::kNone ? request.longest : request.tokens.size();
  return pages_for(positions, pool.page_size());
}

// Gives a request at most `rows` rows, and the pages for them.
Status extend(Sequence& request, uint32_t rows, PagePool& pool) {
  request.rows = std::min(request.pending(), rows);
  const uint64_t pages = pages_for(uint64_t{request.fed} + request.rows, pool.page_size());
  return pool.allocate(pages - request.pages.size(), request.pages);
}

}  // namespace

Status run_ahead(Sequence& request, uint32_t positions, PagePool& pool) {
  const uint64_t pages = pages_for(uint64_t{request.fed} + request.rows + positions, pool.page_size());
  return pool.allocate(std::min<uint64_t>(pages - request.pages.size(), pool.available()), request.pages);
}

Status trim(Sequence& request, PagePool& pool) {
  const auto used = static_cast<size_t>(pages_for(request.fed, pool.page_size()));
  const Status status = pool.release(std::span(request.pages).subspan(used));
  request.pages.resize(used);
  return status;
}

Status forget(Sequence& request, PagePool& pool) {
  const Status status = pool.release(request.pages);
  request.pages.clear();
  request.fed = request.rows = 0;
  return status;
}

Result<uint32_t> plan_step(Roster& roster, PagePool& pool, const StepRules& rules) {
  uint64_t claimed = 0;
  for (size_t i = 0; i < roster.running; ++i) claimed += claim(roster.requests[i], pool, rules.eviction);
  uint32_t evicted = 0;
  for (; claimed > pool.pages(); ++evicted) {
    Sequence& youngest = roster.requests[--roster.running];
    claimed -= claim(youngest, pool, rules.eviction);
    if (Status status = forget(youngest, pool); !status.ok()) return status.error();
  }
  uint32_t rows = rules.max_tokens;
  for (size_t i = 0; i < roster.requests.size() && rows > 0; ++i) {
    Sequence& request = roster.requests[i];
    if (i == roster.running) {
      claimed += claim(request, pool, rules.eviction);
      if (i == rules.max_requests || claimed > pool.pages()) break;
      ++roster.running;
    }
    if (Status status = extend(request, rows, pool); !status.ok()) return status.error();
    rows -= request.rows;
  }
  return evicted;
}

}  // namespace mkrt
