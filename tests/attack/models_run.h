// Runs a random model under its settings, against float64 and bit against bit.
#pragma once

#include <cstdint>
#include <string>

#include "tests/attack/models_case.h"

namespace mkc::attack {

enum class Verdict : uint8_t {
  kRight,     // all rows are as near to float64 as can be asked, and the settings give the same bits
  kRefused,   // a setting was refused with an error even without placements, splits and ring
  kWrong,     // a row is too far off
  kBits,      // settings that should give the same bits do not
  kFailed,    // a step failed, of a race or a fault
  kCrashed,   // the process ended by a signal, or as a compiler bug
  kTimedOut,  // it took longer than a case may
};
const char* verdict_name(Verdict verdict);

struct CaseResult {
  Verdict verdict = Verdict::kRight;
  std::string detail{};  // for people
  std::string
      refusal{};      // the error of a setting that was refused; it ran without placements, splits and ring
  uint64_t rows = 0;  // compared with float64
  uint64_t bit_rows = 0;  // compared bit by bit
  double worst = 0;       // of all rows: the distance over the greatest allowed
};

// `directory`: for the checkpoint.
CaseResult run_case(const ModelCase& c, const std::string& directory);

}  // namespace mkc::attack
