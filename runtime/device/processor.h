// The processor of this machine has instruction sets, cores and a clock.
#pragma once

#include <string>
#include <vector>

namespace mkrt {

// Returns the best code generation target that the processor executes. "x86-64-v4" needs AVX-512 with BF16
// and VNNI, and "x86-64-v3" needs AVX2, FMA and F16C. Returns "" for others.
std::string processor_target();

// Returns the logical processors that this process may use, one of each core before the others.
std::vector<int> usable_processors();

// Returns the nanoseconds of a tick of the time stamp counter, measured once.
float ns_per_tick();

}  // namespace mkrt
