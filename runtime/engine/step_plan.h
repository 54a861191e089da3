// The plan of a step says which requests take part, with how many rows and which pages.
#pragma once

#include "runtime/base/status.h"
#include "runtime/engine/sequence.h"
#include "runtime/engine/shared_pages.h"

namespace mkrt {

// Preemption says how many pages the pool keeps for a running request, whether the request has them yet or
// not.
enum class Preemption : uint8_t {
  kNone,  // pages of `longest`: a running request never gives up its pages
  // The kept pages are those of the tokens so far. The tokens grow, and the last running request then gives
  // up its pages and waits. The request is fed again later, from its first token.
  kRecompute,
};

struct StepRules {
  uint32_t max_tokens = 0;               // rows of a step
  uint32_t max_requests = 0;             // of a step
  uint32_t max_rows_beside_decodes = 0;  // rows of other requests in a step that also decodes; 0: no bound
  Preemption preemption = Preemption::kNone;
};

struct PlanCounts {
  uint32_t preempted = 0;         // requests that gave up their pages
  uint64_t looked_up_tokens = 0;  // of prompts admitted for the first time, in the prefix cache
  uint64_t cached_tokens = 0;     // of looked_up_tokens, those that the prefix cache had
};

// Decides which requests run, sets their `rows` and allocates their pages.
//
// Every request that decodes gets a row. The rows left over, within max_rows_beside_decodes, go to the other
// running requests and to waiting ones, in their order. A waiting request is admitted while there are rows,
// places and pages; one that does not fit holds up those behind it.
//
// An admitted request starts behind its tokens in the prefix cache. Its last token is always fed. The first
// running request never gives up its pages.
//
// Requires that the cache has the pages of each request's `longest`. Errors: those of the pages, by a bug
// only.
Result<PlanCounts> plan_step(Roster& roster, SharedPages& pages, const StepRules& rules);

// Allocates pages for `positions` positions behind a planned request's rows, or as many as are free.
Status run_ahead(Sequence& request, uint32_t positions, SharedPages& pages);

// Keeps the tokens of a request's full pages in the prefix cache, if there is one. The request goes on with
// pages of other requests where these hold the same tokens.
Status keep_full_pages(Sequence& request, SharedPages& pages);

// Gives back the pages that hold no fed token.
Status trim(Sequence& request, SharedPages& pages);

// Gives back a request's pages and resets its fed tokens. Errors: those of the pages, by a bug only.
Status forget(Sequence& request, SharedPages& pages);

}  // namespace mkrt
