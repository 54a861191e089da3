// Runs one disturbed session in a process of its own, and judges it.
#pragma once

#include "tests/attack/faults_case.h"

namespace mkc::attack {

enum class FaultVerdict : uint8_t {
  kSame,      // no error, and the bits of the undisturbed run
  kReported,  // an error names what waits or what was found, and the next session is right
  kMissed,    // the disturbance did not happen: the run had fewer such places
  // The verdicts below are findings.
  kWrong,       // other bits, and no error
  kUnseen,      // the same bits and no error, where the disturbance must be seen
  kRefused,     // an error, where the disturbance is harmless
  kVague,       // an error that names nothing
  kGoesOn,      // the session takes another step after the error
  kSpoiltNext,  // another session after the error has an error or other bits
  kCrashed,
  kTimedOut,
};
const char* verdict_name(FaultVerdict verdict);
bool is_finding(FaultVerdict verdict);

struct FaultResult {
  FaultVerdict verdict = FaultVerdict::kSame;
  std::string how;     // kReported: what saw the disturbance
  std::string detail;  // text of the error
};

// Runs a case. The process may take `seconds` of processor time.
FaultResult run_fault(const Fixture& fixture, const FaultCase& c, uint32_t seconds);

}  // namespace mkc::attack
