// A check for instructions that mkc's PTX may not contain.
#pragma once

#include <string>
#include <vector>

namespace mkc {

// Returns one line for each fault, "line N: text: why". The faults are:
//   atom, red without an order and scope (.relaxed, .acquire, .release, .acq_rel; .gpu, .cta), or on floats
//   local memory: .local, ld.local, st.local
//   ld.global.nc, ldu: such loads may miss writes of this launch
//   call, .func: all functions must be inlined
//   volatile accesses, membar: only the primitives synchronise
std::vector<std::string> lint_ptx(const std::string& ptx);

}  // namespace mkc
