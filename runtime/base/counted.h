// Counts read as people write them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace mkrt {

// Returns a number with its noun, in the plural but for one: "1 thread", "2 threads".
inline std::string counted(uint64_t number, const char* noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace mkrt
