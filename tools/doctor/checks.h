// A device goes through all of doctor's checks. The checks run in a process of their own. A check that hangs
// or breaks the device's context does not affect the others.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codegen/targets.h"

namespace mkc {

struct CheckOptions {
  std::vector<std::string> without;  // target features that are neither checked nor used
  std::string assembler;             // value of --assembler
  std::vector<std::string> only;     // substrings, one of which a check's name must have; empty: all checks
};

struct CheckOutcome {
  std::string name;
  std::string fault;    // "": the check passed
  std::string without;  // target feature not to use if the check fails; "": no feature helps
  double seconds = 0;
};

struct CheckReport {
  std::vector<CheckOutcome> checks;
  nlohmann::ordered_json measured;  // Measurement as an object; null: nothing was measured
  std::string measured_fault;       // reason why nothing was measured
  double seconds = 0;
};

// Runs the checks of device 0, then measures it. Requires that the device is of this target. Errors: the
// target's probes cannot be assembled.
Result<CheckReport> check_device(const Target& target, const CheckOptions& options);

// Runs checks from number `first` on, in the process of the checks, with the files in `folder`. Prints a JSON
// object after each check. Ends after the first check that fails.
Status run_checks(const std::string& folder, uint32_t first, const CheckOptions& options);

}  // namespace mkc
