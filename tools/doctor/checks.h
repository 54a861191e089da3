// All checks of a device, in a process of their own, so that one that hangs or breaks the device's context
// costs nothing but itself.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codegen/targets.h"

namespace mkc {

struct CheckOptions {
  std::vector<std::string> without;  // parts that are neither checked nor used
  std::string assembler;             // a flag's value
  std::vector<std::string> only;     // parts of names: checks that have none of them are left out; empty: all
};

struct CheckOutcome {
  std::string name;
  std::string fault;    // "": it passed
  std::string without;  // part to go without where it fails; "": none would help
  double seconds = 0;
};

struct CheckReport {
  std::vector<CheckOutcome> checks;
  nlohmann::ordered_json measured;  // Measurement as an object; null: nothing was measured
  std::string measured_fault;       // why not
  double seconds = 0;
};

// Runs the checks of the device, which is of this target, then measures. Errors: the target's probes cannot
// be assembled.
Result<CheckReport> check_device(const Target& target, const CheckOptions& options);

// The other process: runs checks from number `first` on with what is in `folder`, and prints a JSON object
// behind each; ends with the first that fails.
Status run_checks(const std::string& folder, uint32_t first, const CheckOptions& options);

}  // namespace mkc
