// From which number of tokens on warpgroups multiply, where that shortens simulated steps: a part of -O3.
#pragma once

#include <string>

#include "ir/tasks.h"
#include "scheduler/machine.h"

namespace mkc {

struct WideChoice {
  uint32_t from = 0;    // 0: as before
  std::string figures;  // steps of the first layers by those before; "": nothing chosen
};

// Tries fewer tokens than the program has it from, over the first layers and the steps of
// scheduler/trials.h; what wins is set in the program. Bits of steps of more tokens than that change. Errors:
// grids that wait for each other in a cycle.
Result<WideChoice> choose_wide(TaskProgram& program, const Machine& machine, uint32_t workers);

}  // namespace mkc
