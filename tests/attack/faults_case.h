// A case is a random disturbance that follows from a seed, its number and the model.
#pragma once

#include <string>

#include "tests/attack/faults_models.h"

namespace mkc::attack {

// `FaultEnd` says what must come of a disturbance.
enum class FaultEnd : uint8_t {
  kSameBits,  // the same bits, and no error: the disturbance only delays
  kEither,    // the same bits, or an error
  kError,
};

// `ChangedWord` says which word of the device a disturbance changes.
enum class ChangedWord : uint8_t { kNone, kCell, kTicketOrLog, kArrivals };

// A fault kind is a way to disturb a launch.
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
  size_t kind = 0;  // index in fault_kinds()
  bool race = false;
  uint64_t device_seed = 0;
  mkrt::Disturbance disturbance;
};
// Makes a case of a kind for which the model has a place.
FaultCase make_fault(const Fixture& fixture, uint64_t seed, uint64_t number);

std::string to_json(const FaultCase& c);

}  // namespace mkc::attack
