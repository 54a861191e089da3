// Bank conflicts of shared memory are counted: an access's wavefronts, and those that it needs without a
// conflict.
#pragma once

#include "tests/softgpu/address.h"

namespace softgpu {

// Returns the wavefronts of an access of `bytes` a lane. A wavefront serves half a warp at 8 bytes a lane,
// and a quarter at 16. Lanes that access the same word share it (CUDA programming guide, "Shared Memory").
uint32_t wavefronts(const Addresses& a, uint32_t lanes, uint32_t bytes);

void count_banks(Warp& w, const Instruction& i, const Addresses& a, uint32_t lanes, uint32_t bytes);

}  // namespace softgpu
