// Errors of users have a source location. Compiler bugs end the process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace mkc {

using mkrt::Error;
using mkrt::Result;
using mkrt::Status;

// Loc is a place in an input file. `line` and `col` count from 1, a line of 0 means "no place known". `file`
// is the path as the user wrote it.
struct Loc {
  std::string file;
  uint32_t line = 0;
  uint32_t col = 0;
  bool known() const { return line != 0; }
  bool operator==(const Loc&) const = default;
};

// Returns "file:line:col: error: message". The source line and a caret follow where `source` (the whole text
// of the file) is given. Messages are in lower case, have no full stop, and name the actual and the required
// values.
Error error_at(const Loc& loc, std::string_view message, std::string_view source = {});

// Returns the entry of `known` nearest to `name` by edit distance, or "" when none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& known);

// Reports a compiler bug on standard error with file, line and message and exits with code 70. Where two
// threads report bugs at once, the second one waits for the exit.
[[noreturn]] void bug(const char* file, int line, const std::string& message);

#define MKC_BUG(message) ::mkc::bug(__FILE__, __LINE__, (message))
#define MKC_ASSERT(condition, message)  \
  do {                                  \
    if (!(condition)) MKC_BUG(message); \
  } while (false)

}  // namespace mkc
