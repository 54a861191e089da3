// Variables of the environment are read as text.
#pragma once

#include <cstdlib>
#include <string>

namespace mkrt {

// Returns the value of a variable, or "" where it is not set.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace mkrt
