// Random disturbances: a case follows from a seed, its number and the model.
#pragma once

#include <string>

#include "tests/attack/faults_models.h"

namespace mkc::attack {

// What must come of a disturbance.
enum class FaultEnd : uint8_t {
  kSameBits,  // and no error: it only delays
  kEither,    // the same bits, or an error
  kError,
};

// Which word of the device a disturbance changes.
enum class ChangedWord : uint8_t { kNone, kCell, kTicketOrLog, kArrivals };

// A way to disturb a launch.
struct FaultKind {
  const char* name;
  mkrt::Disturbance::Kind kind;
  mkrt::Disturbance::Place place;
  mkrt::Disturbance::Until until;
  FaultEnd end;
  ChangedWord word = ChangedWord::kNone;
  bool from_the_start = false;
};
const std::vector<FaultKind>& fault_kinds();

struct FaultCase {
  size_t kind = 0;  // of fault_kinds()
  bool race = false;
  uint64_t device_seed = 0;
  mkrt::Disturbance disturbance;
};
// The kind is one that the model has a place for.
FaultCase make_fault(const Fixture& fixture, uint64_t seed, uint64_t number);

std::string to_json(const FaultCase& c);

}  // namespace mkc::attack
