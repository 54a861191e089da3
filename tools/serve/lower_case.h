// Names of HTTP are compared without regard to case.
#pragma once

#include <algorithm>
#include <string>

namespace mkc {

// Returns a text with its ASCII letters in lower case.
inline std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

}  // namespace mkc
