// What PTX may not contain, whatever it was made from.
#pragma once

#include <string>
#include <vector>

namespace mkc {

// One line for each fault, "line N: text: why":
//   atom, red without an order and scope (.relaxed, .acquire, .release, .acq_rel; .gpu, .cta), or on floats
//   local memory: .local, ld.local, st.local
//   ld.global.nc, ldu: such loads may miss what this launch wrote
//   call, .func: everything is inlined
//   volatile accesses, membar: synchronisation goes through the primitives
std::vector<std::string> lint_ptx(const std::string& ptx);

}  // namespace mkc
