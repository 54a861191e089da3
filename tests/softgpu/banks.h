// Conflicts of shared memory's banks: what an access takes beyond what its bytes need.
#pragma once

#include "tests/softgpu/address.h"

namespace softgpu {

// Wavefronts of an access of `bytes` a lane: 8 bytes are served to half a warp at a time, 16 to a quarter.
// Lanes that access the same word share it (CUDA programming guide, "Shared Memory").
uint32_t wavefronts(const Addresses& a, uint32_t lanes, uint32_t bytes);

void count_banks(Warp& w, const Instruction& i, const Addresses& a, uint32_t lanes, uint32_t bytes);

}  // namespace softgpu
