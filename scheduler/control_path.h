// What the kernel's control path executes between its waits, and what that takes on a machine.
#pragma once

#include "scheduler/machine.h"

namespace mkc {

// A way through machine code: instructions of a warp, loads that wait for each other, barriers of a worker.
struct CodePath {
  double instructions = 0, global_loads = 0, shared_loads = 0, barriers = 0;
};

// Counted in the machine code for sm_90a by tools/bench/loops (docs/performance.md): of the shapes in
// tools/bench/configs, the longest of their ways in the middle. Polls, and the barrier behind one, have
// figures of their own; so has a product's first load of activations.
constexpr CodePath kNextBulkCopy{.instructions = 66, .shared_loads = 1};
constexpr CodePath kNextRowCopies{.instructions = 66, .shared_loads = 1};  // of kRowCopiesBytes
constexpr CodePath kDispatch{.instructions = 57, .global_loads = 1, .shared_loads = 1, .barriers = 3};
constexpr CodePath kProductStart{.instructions = 232, .shared_loads = 1};
// The same for sm_80, once for each kWarpCopyBytes of weights.
constexpr CodePath kNextWarpCopy{.instructions = 10};

constexpr double kRowCopiesBytes = 8192;  // once around the loop that copies rows of a cache
constexpr double kWarpCopyBytes = 512;    // of cp.async, by all lanes of a warp

// Machine code that the loops and ways of one body's tasks take. Estimate: a step's hot code is 50 to 70 KiB
// for five bodies and the loader.
constexpr double kBodyCodeBytes = 12 * 1024;
constexpr double kInstructionBytes = 16;

double path_ns(const Machine& machine, const CodePath& path);

// What the loader takes for a tile of weights, or of keys and values, beside the copy itself.
double weight_issue_ns(const Machine& machine, double bytes);
double cache_issue_ns(const Machine& machine, double bytes);

// What a segment takes to start whose code has left the instruction cache, in a step of so many bodies.
double code_miss_ns(const Machine& machine, uint32_t bodies);

}  // namespace mkc
