// Input files must be readable text of bounded size in valid UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ir/diag.h"

namespace mkc {

// Returns the error of `expression` from the enclosing function, or binds its value to `name`.
#define MKC_TRY(name, expression)                        \
  auto name##_result = (expression);                     \
  if (!name##_result.ok()) return name##_result.error(); \
  auto& name = name##_result.value()  // NOLINT(bugprone-macro-parentheses): declares a name

// Returns the error of the status `expression` from the enclosing function, if it has one.
#define MKC_TRY_STATUS(expression) \
  if (auto status = (expression); !status.ok()) return status.error()

struct Source {
  std::string path;  // as the user wrote it
  std::string text;
  bool operator==(const Source&) const = default;
};

constexpr size_t kMaxSourceBytes = 1 << 20;

// Reads a regular file. Errors: unreadable, larger than kMaxSourceBytes, or not text (see check_text).
Result<Source> read_source(const std::string& path);

// Fails for invalid UTF-8 and for control characters other than tab, line feed and carriage return. The error
// has the place of the byte.
Status check_text(const Source& source);

// Returns "path:line:col: error: message" with the source line and a caret. Line 0 gives "path: error:
// message".
Error error_in(const Source& source, uint32_t line, uint32_t col, std::string_view message);

// A place is a line and a column in bytes, both counted from 1. place_of() returns the place of the byte at
// `offset`.
struct Place {
  uint32_t line = 0, col = 0;
  bool operator==(const Place&) const = default;
};
Place place_of(std::string_view text, size_t offset);

}  // namespace mkc
