// The running program has an exact identity.
#pragma once

#include <string>

namespace mkc {

// Returns the hexadecimal build ids of the running program and of its loaded libraries, one per line. Where
// the compiler is in libmkc, only that library and LLVM count. Returns "" if the program or libmkc has no
// build id.
std::string build_ids();

}  // namespace mkc
