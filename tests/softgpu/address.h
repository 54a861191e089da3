// Addresses of a warp's lanes are checked as a GPU checks them.
#pragma once

#include "tests/softgpu/machine.h"

namespace softgpu {

struct Addresses {
  uint64_t at[32];
};

// Returns operand `n` plus displacement `d` for each lane. Registers of 32 bits hold addresses of shared
// memory.
Addresses addresses_of(Warp& w, const Instruction& i, uint32_t n, uint32_t d, uint32_t lanes);

// Faults unless all addresses are aligned to `bytes` and within allocations. Returns the allocation, or
// nullptr where lanes access several.
Allocation* check_global(Warp& w, const Instruction& i, const Addresses& a, uint32_t lanes, uint32_t bytes);
// Turns addresses into offsets. Faults unless all are aligned, inside of shared memory, and on no mbarrier.
void check_shared(Warp& w, const Instruction& i, Addresses& a, uint32_t lanes, uint32_t bytes);

}  // namespace softgpu
