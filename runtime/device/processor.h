// The processor of this machine has instruction sets, cores and a clock.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace mkrt {

// Returns the code generation targets that the processor executes, the best one first. "x86-64-amx" needs
// what "x86-64-v4" needs, AMX with BF16 and INT8, and a system that knows its tiles. "x86-64-v4" needs
// AVX-512 with BF16, VBMI and VNNI. "x86-64-avx512" needs AVX-512 with VNNI. "x86-64-v3" needs AVX2, FMA and
// F16C.
std::vector<std::string> processor_targets();

// Asks the system for what code of one of processor_targets() needs: AMX's tiles, for all threads of the
// process from then on. Alternate signal stacks of 8 KiB are too small for their state. Errors: the system
// refuses.
Status use_target(const std::string& target);

// Returns the first of processor_targets() for which use_target() succeeds, or "" where there is none.
std::string processor_target();

// Returns the logical processors that this process may use, one of each core before the others.
std::vector<int> usable_processors();

// Returns the nanoseconds of a tick of the time stamp counter, measured once.
float ns_per_tick();

// Measures the nanoseconds of a tick by two functions that read clocks. The result is right to 1 %, wherever
// the thread loses its processor meanwhile. The measurement takes 5 ms, and longer after such a pause.
float measure_ns_per_tick(const std::function<uint64_t()>& ticks, const std::function<uint64_t()>& ns);

}  // namespace mkrt
