// Which program this is, to the bit.
#pragma once

#include <string>

namespace mkc {

// Hexadecimal build ids of the running program and of the libraries it has loaded, one a line; "" if the
// linker left the program none.
std::string build_ids();

}  // namespace mkc
