// Which requests take part in the next step, with how many rows and which pages.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/engine/sampler.h"
#include "runtime/session/pages.h"

namespace mkrt {

// How many pages are kept for a running request, whether it has them yet or not.
enum class Eviction : uint8_t {
  kNone,       // those of its longest: it never has to give them up
  kRecompute,  // those of its tokens so far: as these grow, the youngest running request gives up its pages
               // and is fed again later, from its first token
};

// A request that has arrived and is not finished.
struct Sequence {
  uint64_t id = 0;
  std::vector<int32_t> tokens;   // its prompt, then the new ones
  uint32_t prompt = 0;           // tokens of the prompt
  uint32_t longest = 0;          // positions it can come to need: the last new token is never fed
  uint32_t fed = 0;              // tokens in the cache
  uint32_t rows = 0;             // of the planned step: tokens [fed, fed + rows)
  std::vector<int32_t> pages;    // those of positions [0, fed + rows), in order
  Sampler sampler;               // of its next token
  std::vector<Sampled> samples;  // of the new tokens, where log-probabilities are wanted

  uint32_t pending() const { return static_cast<uint32_t>(tokens.size()) - fed; }
};

// Requests by arrival, oldest first. The first `running` take part in every step; the others wait and have no
// pages. All running ones but the youngest have one token to feed: a request is admitted into the rows that
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

// Decides which requests run, sets their `rows` and allocates their pages. Every running request gets a row;
// the rows left over go to the youngest one's prompt, and then to waiting requests, in their order and as
// long as there are rows, places and pages. Where requests are, at least the oldest runs. Requires that the
// pool holds each request's `longest`. Returns how many requests gave up their pages. Errors: those of the
// pool, by a bug only.
Result<uint32_t> plan_step(Roster& roster, PagePool& pool, const StepRules& rules);

// Allocates pages for `positions` more than a planned request has rows for, or as many of them as are free.
Status run_ahead(Sequence& request, uint32_t positions, PagePool& pool);

// Gives the pages back that nothing was fed to.
Status trim(Sequence& request, PagePool& pool);

// Gives a request's pages back and forgets what was fed. Errors: those of the pool, by a bug only.
Status forget(Sequence& request, PagePool& pool);

}  // namespace mkrt
