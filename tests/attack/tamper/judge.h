// Tries mutants in processes of their own, so that a crash or a hang is a verdict like others.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "tests/attack/tamper/edits.h"

namespace mkc::attack {

struct Tally {
  uint64_t tried = 0;
  std::array<uint64_t, kVerdictCount> verdicts{};
  std::vector<std::string> bad;  // the first mutants that break the promise
};

// Returns whether the verdict keeps the promise. An artefact with its old seal is refused. One that is sealed
// anew never ends the process.
bool kept(const Edit& edit, Verdict verdict);

// Judges mutants first, first + step, … below `end`.
void judge(const Target& target, const Edit& edit, size_t first, size_t end, size_t step, Tally& tally);

}  // namespace mkc::attack
