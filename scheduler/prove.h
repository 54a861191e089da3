// The proof that a schedule may launch: no deadlock, counts that match, reads and overwrites in order, for
// all values of its symbols and lists. docs/proof.md has the rules, the lemmas and what is not covered.
#pragma once

#include <string>

#include "ir/schedule.h"

namespace mkc {

// Statements that were shown, each for all values.
struct ProofReport {
  uint64_t symbolic = 0;    // by canonical forms of expressions, and by what events order
  uint64_t enumerated = 0;  // at each value of a small domain
  uint64_t lemmas = 0;      // by a lemma about lists, caches or tables
  bool operator==(const ProofReport&) const = default;
};

// Requires a schedule that verify() accepts. Refuses, with an error that names what it is about:
//   1. tasks that no stream holds, or more than one; inline and claimed grids that nothing starts
//   2. slots that are too small, leave their arena or overlap where nothing is ever shared; counters likewise
//   3. a ring with fewer stages than a worker holds at once; look-ups before what they look up is written
//   4. cells that expect another number than they are notified
//   5. grids without one order, as a step might deadlock
//   6. reads of what is not written before, elements written twice, outputs not written whole
//   7. memory that one tensor takes while another is in use
//   8. caches that not every step fills at its positions, or that two layers share
// What it cannot show is refused as `unproved: …`, after a look for values at which it is wrong.
Result<ProofReport> prove(const Schedule& schedule);

// One line for people.
std::string to_string(const ProofReport& report, const Schedule& schedule);

}  // namespace mkc
