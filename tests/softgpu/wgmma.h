// Products of a warpgroup complete late (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
#pragma once

#include "tests/softgpu/machine.h"

namespace softgpu {

// Completes the warp's oldest product that is not done: takes its operands and writes its sums.
void complete_product(Warp& w);
// Faults if an instruction touches registers of a product that nobody waited for.
void check_busy(Warp& w, const Instruction& i);

}  // namespace softgpu
