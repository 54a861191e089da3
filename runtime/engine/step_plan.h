// The plan of a step: which requests take part, with how many rows and which pages.
#pragma once

#include "runtime/base/status.h"
#include "runtime/engine/sequence.h"
#include "runtime/session/pages.h"

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
  uint32_t max_tokens = 0;    // rows of a step
  uint32_t max_requests = 0;  // of a step
  Preemption preemption = Preemption::kNone;
};

// Decides which requests run, sets their `rows` and allocates their pages.
//
// Every request that decodes gets a row. The rows left over go to the other running requests and to waiting
// ones, in their order. A waiting request is admitted while there are rows, places and pages; one that does
// not fit holds up those behind it. The first running request never gives up its pages.
//
// Requires that the pool has the pages of each request's `longest`. Returns how many requests gave up their
// pages. Errors: those of the pool, by a bug only.
Result<uint32_t> plan_step(Roster& roster, PagePool& pool, const StepRules& rules);

// Allocates pages for `positions` positions behind a planned request's rows, or as many as are free.
Status run_ahead(Sequence& request, uint32_t positions, PagePool& pool);

// Gives back the pages that hold no fed token.
Status trim(Sequence& request, PagePool& pool);

// Gives back a request's pages and resets its fed tokens. Errors: those of the pool, by a bug only.
Status forget(Sequence& request, PagePool& pool);

}  // namespace mkrt
