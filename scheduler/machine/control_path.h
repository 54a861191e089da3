// The kernel executes these instructions between its waits, and a machine takes time for them.
#pragma once

#include "scheduler/machine/machine.h"

namespace mkc {

// CodePath is a path through machine code: instructions of a warp, loads that wait for each other, and
// barriers of a worker.
struct CodePath {
  double instructions = 0, global_loads = 0, shared_loads = 0, barriers = 0;
};

// The counts come from the machine code for sm_90a by tools/bench/loops (docs/performance.md), of products of
// up to 8 tokens. Each count is the longest of the median paths of the shapes in tools/bench/configs. Polls
// and the barrier after a poll have figures of their own. A product's first load of activations has one, too.
constexpr CodePath kNextBulkCopy{.instructions = 65, .shared_loads = 1};
constexpr CodePath kNextRowCopies{.instructions = 66, .shared_loads = 1};  // copies kRowCopiesBytes
constexpr CodePath kDispatch{.instructions = 64, .global_loads = 1, .shared_loads = 1, .barriers = 3};
// A product goes from a notification seen to its first load of activations, and on to its first matrix
// instruction. From the last one it goes to the barrier of its sums. The epilogue, for the sums that the
// worker's threads take in one round, and the notification follow.
constexpr CodePath kProductStart{.instructions = 120, .shared_loads = 1};
constexpr CodePath kFirstProduct{.instructions = 119, .shared_loads = 1};
constexpr CodePath kProductSums{.instructions = 86, .shared_loads = 1, .barriers = 1};
constexpr CodePath kEpilogue{.instructions = 75, .shared_loads = 1};
constexpr CodePath kProductNotify{.instructions = 43, .shared_loads = 1, .barriers = 1};
// The count for sm_80; one copy takes kWarpCopyBytes of weights.
constexpr CodePath kNextWarpCopy{.instructions = 10};

constexpr double kRowCopiesBytes = 8192;  // bytes of one iteration of the loop that copies rows of a cache
constexpr double kWarpCopyBytes = 512;    // bytes of one cp.async of all lanes of a warp

// Machine code of the loops and paths of one body's tasks. Estimate: a step's hot code is 50 to 70 KiB for
// five bodies and the loader.
constexpr double kBodyCodeBytes = 12 * 1024;
constexpr double kInstructionBytes = 16;

// Returns the time of a path: its instructions, loads and barriers, each at the machine's time.
double path_ns(const Machine& machine, const CodePath& path);

// Returns the time of a product from a notification seen to its first matrix instruction, without the loads
// themselves.
double product_start_ns(const Machine& machine);

// Return the time of the loader to issue a tile of weights, or of keys and values, without the copy itself.
double weight_issue_ns(const Machine& machine, double bytes);
double cache_issue_ns(const Machine& machine, double bytes);

// Returns the start time of a segment whose code has left the instruction cache, in a step of `bodies`
// bodies.
double code_miss_ns(const Machine& machine, uint32_t bodies);

}  // namespace mkc
