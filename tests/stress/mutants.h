// Bugs are put into the generated kernel on purpose, and must be caught in a known way.
#pragma once

#include <string>
#include <vector>

#include "ir/schedule.h"
#include "runtime/emulator/disturbance.h"
#include "tests/stress/edits.h"

namespace mkc::test {

// Each constant is a text in the launch's error that shows how a mutant is caught.
inline constexpr const char* kRace = " races\n";
inline constexpr const char* kReadTooEarly = "unordered read after write";
inline constexpr const char* kWriteTooEarly = "unordered write after read";
inline constexpr const char* kOutside = "access outside shared memory";
inline constexpr const char* kFault = " waited for event ";  // a wait passed the kernel's own deadline
inline constexpr const char* kStuck = " of its ring beyond ";
inline constexpr const char* kNotHanded = " that its loader claims beyond ";
inline constexpr const char* kNoStep = " of the launch beyond ";
inline constexpr const char* kMiscounted = " of the launch ended with ";  // wrong counts at a step's end
inline constexpr const char* kDeadlock = "deadlock:";  // no deadline covers the wait: the emulator finds it
inline constexpr const char* kNotAwaited = "nobody waited for all copies";
inline constexpr const char* kExtraArrival = "arrivals of its phase already";
inline constexpr const char* kDiverged = " diverged: ";  // lanes of a warp diverged
inline constexpr const char* kWrong = "a wrong result";
// An access to a wild address, by kernel code or by the emulator's own code on a thread's fiber. The emulator
// makes the same error of both.
inline constexpr const char* kWild = ", where there is no memory";
// A signal that kernel code raised, or kWild. Any other signal from outside of kernel code is a fault of the
// emulator or of its heap, and catches nothing.
inline constexpr const char* kCrash = "a crash in kernel code";

struct Mutant {
  std::string name;
  std::vector<SiteEdit> edits;
  std::vector<const char*> caught;  // errors, of which one must show
  bool in_some_orders = false;      // shows only where a thread comes early; otherwise every seed shows it
  mkrt::Disturbance disturbance{};  // disturbance of the launch, in addition to the edits
};

std::vector<Mutant> ring_mutants();
std::vector<Mutant> segment_mutants();
std::vector<Mutant> bulk_copy_mutants();
std::vector<Mutant> warpgroup_mutants();
std::vector<Mutant> pass_mutants();  // mutants of products in several passes
std::vector<Mutant> async_copy_mutants();
std::vector<Mutant> event_mutants();
std::vector<Mutant> step_mutants();
std::vector<Mutant> ticket_mutants();  // mutants of a model whose tasks are claimed
std::vector<Mutant> body_mutants();
std::vector<Mutant> lookup_mutants();
std::vector<Mutant> fault_mutants();
std::vector<Mutant> site_mutants(const Schedule& s);  // mutants of each kind's waits and notifications

}  // namespace mkc::test
