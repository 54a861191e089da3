// Bugs that are put into the generated kernel on purpose, and how they are caught.
#pragma once

#include <string>
#include <vector>

#include "ir/schedule.h"
#include "runtime/emulator/disturbance.h"
#include "tests/stress/edits.h"

namespace mkc::test {

// How a mutant is caught: what the launch's error says.
inline constexpr const char* kRace = " races\n";
inline constexpr const char* kReadTooEarly = "unordered read after write";
inline constexpr const char* kWriteTooEarly = "unordered write after read";
inline constexpr const char* kOutside = "access outside shared memory";
inline constexpr const char* kFault = " waited for event ";  // the kernel's own deadline
inline constexpr const char* kStuck = " of its ring beyond ";
inline constexpr const char* kNotHanded = " that its loader claims beyond ";
inline constexpr const char* kNoStep = " of the launch beyond ";
inline constexpr const char* kMiscounted = " of the launch ended with ";  // counters at a step's end
inline constexpr const char* kDeadlock = "deadlock:";  // no deadline covers it: the emulator finds it
inline constexpr const char* kNotAwaited = "nobody waited for all copies";
inline constexpr const char* kExtraArrival = "arrivals of its phase already";
inline constexpr const char* kDiverged = " diverged: ";  // lanes of a warp
inline constexpr const char* kWrong = "a wrong result";
inline constexpr const char* kWild = ", where there is no memory";  // wild addresses
inline constexpr const char* kCrash = "a crash";  // the same, or a heap that was written over

struct Mutant {
  std::string name;
  std::vector<SiteEdit> edits;
  std::vector<const char*> caught;  // by one of these
  bool in_some_orders = false;      // only where a thread comes early; otherwise with every seed
  mkrt::Disturbance disturbance{};  // of the launch, beside the edits
};

std::vector<Mutant> ring_mutants();
std::vector<Mutant> segment_mutants();
std::vector<Mutant> bulk_copy_mutants();
std::vector<Mutant> warpgroup_mutants();
std::vector<Mutant> pass_mutants();  // of more tokens than go together
std::vector<Mutant> async_copy_mutants();
std::vector<Mutant> event_mutants();
std::vector<Mutant> step_mutants();
std::vector<Mutant> ticket_mutants();  // of a model whose tasks are claimed
std::vector<Mutant> body_mutants();
std::vector<Mutant> lookup_mutants();
std::vector<Mutant> fault_mutants();
std::vector<Mutant> site_mutants(const Schedule& s);  // of each kind of grid's waits and notifications

}  // namespace mkc::test
