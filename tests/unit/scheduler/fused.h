// Tests of fusion compare fused programs as text.
#pragma once

#include <string>
#include <string_view>

#include "ir/tasks.h"

namespace mkc::test {

// Returns one grid a line, as "name body [extents] reads -> writes". Accesses are printed as role=tensor.
std::string grids_of(const TaskProgram& program);

enum class Read { kAny, kStreamed, kWaitedFor };
// Returns the region of an operand of a grid, or "none".
std::string region_of(const TaskProgram& program, std::string_view grid, std::string_view role, bool writes,
                      Read read = Read::kAny);

// Returns the fused program of a configuration. A failure ends the test.
TaskProgram fused(const std::string& config);

}  // namespace mkc::test
