// Instructions that are wrong on purpose, to see who finds it.
#pragma once

#include <string>

#include "tests/softgpu/instruction.h"

namespace softgpu {

// Breaks what `defect` names: "acquire" or "release", which then order nothing, or all instructions whose
// names begin so. One with results gives another one in every lane; setmaxnreg waits for ever; others do
// nothing. "": nothing is broken.
void break_instructions(Module& module, const std::string& defect);

}  // namespace softgpu
