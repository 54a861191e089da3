// Which requests take part in the next step, with how many rows and which pages.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "runtime/pages.h"

namespace mkrt {

// What happens when the pages do not suffice for all requests at their longest.
enum class Eviction : uint8_t {
  kNone,       // a request waits until pages for its longest are left, and then keeps them
  kRecompute,  // a request waits for what its tokens so far need; later the youngest gives up its pages, and
               // waits to be fed again from its first token
};

// A request that has arrived and is not finished.
struct Sequence {
  uint64_t id = 0;
  std::string name;             // in errors
  std::vector<int32_t> tokens;  // its prompt, then the new ones
  uint32_t prompt = 0;          // tokens of the prompt
  uint32_t longest = 0;         // positions it can come to need: the last new token is never fed
  uint32_t fed = 0;             // tokens in the cache
  uint32_t rows = 0;            // of the planned step: tokens [fed, fed + rows)
  std::vector<int32_t> pages;   // those of positions [0, fed + rows), in order

  uint32_t pending() const { return static_cast<uint32_t>(tokens.size()) - fed; }
};

// Requests by arrival, oldest first. The first `running` have their place in steps; the others wait and have
// no pages. So every running request is older than every waiting one, whatever the policy.
struct Roster {
  std::deque<Sequence> requests;
  size_t running = 0;
};

struct StepRules {
  uint32_t max_tokens = 0;    // rows of a step
  uint32_t max_requests = 0;  // running ones
  Eviction eviction = Eviction::kNone;
};

// Sets `rows` of every request and allocates their pages. Requests with one token left to feed come first;
// what is left of max_tokens goes to the prompts, oldest first, in chunks; then waiting requests are admitted
// in order while rows, places and pages suffice, except in a step that evicts. At most max_tokens requests
// run, so that each of those with one token has its row in every step. Where requests are, at least one gets
// rows: the oldest, once running, keeps its pages.
// Requires that each request's `longest` fits in the empty pool.
// Returns how many requests gave up their pages. Errors: those of the pool, by a bug only.
Result<uint32_t> plan_step(Roster& roster, PagePool& pool, const StepRules& rules);

// Gives a request's pages back and forgets what was fed. Errors: those of the pool, by a bug only.
Status forget(Sequence& request, PagePool& pool);

}  // namespace mkrt
