// Runs a random model under its settings. Compares rows with float64, and the runs bit by bit.
#pragma once

#include <cstdint>
#include <string>

#include "tests/attack/models_case.h"

namespace mkc::attack {

enum class Verdict : uint8_t {
  kRight,     // all rows are as near to float64 as they must be, and the runs give the same bits
  kRefused,   // a setting was refused with an error even without placements, splits and ring
  kWrong,     // a row is too far off
  kBits,      // runs that should give the same bits do not
  kFailed,    // a step failed with a race or a fault
  kCrashed,   // the process ended by a signal, or as a compiler bug
  kTimedOut,  // the case took longer than it may
};
const char* verdict_name(Verdict verdict);

struct CaseResult {
  Verdict verdict = Verdict::kRight;
  std::string detail{};   // details for people
  std::string refusal{};  // error of a refused setting, which then ran without placements, splits and ring
  uint64_t compiled = 0;  // settings compiled
  uint64_t runs = 0;      // runs of these
  uint64_t rows = 0;      // rows compared with float64
  uint64_t bit_rows = 0;  // rows compared bit by bit
  bool second_bound = false;  // a row was beyond the first bound, so that more honest runs set a second one
  double worst = 0;           // greatest of all rows: distance over allowed distance
};

// Runs a case. `directory` is for the checkpoint.
CaseResult run_case(const ModelCase& c, const std::string& directory);

}  // namespace mkc::attack
