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
  std::vector<std::string> bad;  // the first that should not be
};

// Whether the verdict keeps the promise: an artefact whose seal was left alone is refused; one that was
// sealed anew never ends the process.
bool kept(const Edit& edit, Verdict verdict);

// Mutants first, first + step, … below `end`.
void judge(const Target& target, const Edit& edit, size_t first, size_t end, size_t step, Tally& tally);

}  // namespace mkc::attack
