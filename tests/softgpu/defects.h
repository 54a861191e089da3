// Some instructions can be made wrong on purpose, to see which tests find them.
#pragma once

#include <string>

#include "tests/softgpu/instruction.h"

namespace softgpu {

// Breaks the instructions that `defect` names; "" breaks nothing. "acquire" and "release" take that order
// from every instruction. Any other text breaks the instructions whose names begin with it. A broken
// instruction with results gives another result in every lane. A broken setmaxnreg waits for ever, and others
// do nothing.
void break_instructions(Module& module, const std::string& defect);
// Returns whether `defect` names what can be broken, or is "".
bool is_defect(const std::string& defect);

}  // namespace softgpu
