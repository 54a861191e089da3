// A proved schedule may launch: it has no deadlock, matching counts, and ordered reads and overwrites. The
// proof holds for all values of the schedule's symbols and lists. docs/proof.md has the rules, the lemmas and
// what is not covered.
#pragma once

#include <string>

#include "ir/parse.h"

namespace mkc {

// ProofReport has numbers of proved statements, each for all values.
struct ProofReport {
  uint64_t symbolic = 0;    // proved by canonical forms of expressions, and by the order of events
  uint64_t enumerated = 0;  // proved at each value of a small domain
  uint64_t lemmas = 0;      // proved by a lemma about lists, caches or tables
  bool operator==(const ProofReport&) const = default;
};

// Proves a schedule. Requires a schedule that verify() accepts. Refuses these, with an error that names the
// object, and its line in the text where `places` has it:
//   1. tasks that no stream holds, or more than one; inline and claimed grids that nothing starts
//   2. slots that are too small, leave their arena, or overlap where nothing may be shared; counters likewise
//   3. a ring with fewer stages than a worker holds at once; lookups of tables that are not written yet
//   4. cells that expect another count than they receive
//   5. grids without one order, as a step might deadlock
//   6. reads of elements that are not written before, elements written twice, outputs not written whole
//   7. memory that one tensor takes while another is in use
//   8. caches that not every step fills at its positions, or that two layers share
//
// A statement that is not proved is checked at chosen values, to find values at which it is wrong. A schedule
// of few values is accepted if it is right at all of them, and if no statement is known to be wrong. Other
// schedules are refused as `unproved: …` where no such values are found.
Result<ProofReport> prove(const Schedule& schedule, const Places* places = nullptr);

// Returns one line for people.
std::string to_string(const ProofReport& report, const Schedule& schedule);

}  // namespace mkc
