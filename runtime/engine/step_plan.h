// The plan of a step: which requests take part, with how many rows and which pages.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/engine/sampler.h"
#include "runtime/session/pages.h"

namespace mkrt {

// Eviction says how many pages the pool keeps for a running request, whether the request has them yet or not.
enum class Eviction : uint8_t {
  kNone,  // pages of `longest`: a running request never gives up its pages
  // The kept pages are those of the tokens so far. The tokens grow, and the youngest running request then
  // gives up its pages. The request is fed again later, from its first token.
  kRecompute,
};

// A Sequence is a request that has arrived and is not finished.
struct Sequence {
  uint64_t id = 0;
  std::vector<int32_t> tokens;   // its prompt, then the new ones
  uint32_t prompt = 0;           // tokens of the prompt
  uint32_t longest = 0;          // most positions it may need: the last new token is never fed
  uint32_t fed = 0;              // tokens in the cache
  uint32_t rows = 0;             // rows of the planned step: tokens [fed, fed + rows)
  std::vector<int32_t> pages;    // pages of positions [0, fed + rows), in order
  Sampler sampler;               // for its next token
  std::vector<Sampled> samples;  // of the new tokens, if log-probabilities are wanted

  uint32_t pending() const { return static_cast<uint32_t>(tokens.size()) - fed; }
};

// A Roster has requests by arrival, oldest first. The first `running` requests take part in every step; the
// others wait and have no pages.
//
// All running requests but the youngest have one token to feed, because a request is admitted into rows that
// older prompts leave.
struct Roster {
  std::deque<Sequence> requests;
  size_t running = 0;
};

struct StepRules {
  uint32_t max_tokens = 0;    // rows of a step
  uint32_t max_requests = 0;  // of a step
  Eviction eviction = Eviction::kNone;
};

// Decides which requests run, sets their `rows` and allocates their pages. Every running request gets a row.
// The youngest one's prompt gets the rows left over.
//
// Waiting requests get the rest in their order, while there are rows, places and pages. The oldest request
// always runs.
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
