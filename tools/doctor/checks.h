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
  uint32_t driver = 0;               // of find_assembler()
  std::vector<std::string> only;     // substrings, one of which a check's name must have; empty: all checks
};

struct CheckOutcome {
  std::string name;
  std::string fault;           // "": the check passed, or was skipped
  std::string skipped;         // reason why the check did not run; "": it ran
  std::string without;         // target feature not to use if the check fails; "": no feature helps
  double seconds = 0;          // of the check itself
  double compile_seconds = 0;  // of its kernel on one thread; 0 for primitives, which share one module
  bool cached = false;         // the kernel was in the cache
};

struct CheckReport {
  std::vector<CheckOutcome> checks;
  std::string unusable;  // reason why the GPU could not be opened, and checks are missing; "": none
  nlohmann::ordered_json measured;  // Measurement as an object; null: nothing was measured
  std::string measured_fault;       // reason why nothing was measured
  uint64_t free_bytes = 0;          // memory of the device that nobody used at the beginning; 0: not known
  uint32_t threads = 1;             // threads that compiled
  // seconds is the time of everything. The others are its parts: compiling on all threads, beside which
  // primitives and measurements run, then opening the GPU, checks and measurements.
  double seconds = 0, compile_seconds = 0, open_seconds = 0, check_seconds = 0, measure_seconds = 0;
  double first_open_seconds = 0;  // of the first process alone; each that ends a check is followed by another
  double probe_seconds = 0;       // of compiling the module of all primitives, on one thread
};

// Tells whether some check of some target has a name with this part.
bool has_check(const std::string& part);

// Returns how long the parts of a check may take, for people who wait for it.
std::string check_limits();

// Runs the checks of device 0, then measures it. Requires that the device is of this target. Errors: the
// target's probes cannot be assembled.
Result<CheckReport> check_device(const Target& target, const CheckOptions& options);

// Runs checks from number `first` to `end`, in the process of the checks, with the files in `folder`. Prints
// a JSON object once the GPU is open and after each check. Ends after the first check that fails. Checks of
// bodies without a file are left out.
Status run_checks(const std::string& folder, uint32_t first, uint32_t end, const CheckOptions& options);

}  // namespace mkc
