// Entries of caches are named by a hash, which tells them from other files of their folder.
#pragma once

#include <string_view>

namespace mkrt {

// Returns what follows the 32 digits of a hash that a file's name begins with, or "" for another name.
inline std::string_view ending_of_entry(std::string_view name) {
  constexpr size_t kDigits = 32;
  const bool is_entry = name.find_first_not_of("0123456789abcdef") == kDigits;
  return is_entry ? name.substr(kDigits) : std::string_view();
}

}  // namespace mkrt
