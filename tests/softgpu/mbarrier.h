// An mbarrier counts arrivals and bytes (PTX ISA, "Parallel Synchronization and Communication Instructions:
// mbarrier").
#pragma once

#include "tests/softgpu/machine.h"

namespace softgpu {

// Returns the mbarrier at `address` and its offset. Faults where there is none.
std::pair<MBarrier*, uint32_t> find_mbarrier(const Warp& w, const Instruction& i, uint64_t address);

// Lets copies see the mbarriers that are initialised, for fence.mbarrier_init or a proxy fence.
void show_mbarriers(Cta& cta);

// Changes the bytes to come and then the pending arrivals. The phase ends when both are zero.
void change_mbarrier(Cta& cta, uint32_t offset, const Warp* w, const Instruction* i, int32_t bytes,
                     uint32_t arrivals);

}  // namespace softgpu
