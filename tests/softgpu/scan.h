// The scanner cuts PTX text into statements.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace softgpu {

struct Statement {
  enum class Kind : uint8_t { kText, kLabel, kOpen, kClose, kEnd };
  Kind kind = Kind::kEnd;
  std::string_view text;  // text without its semicolon or colon
  uint32_t line = 0;
};

class Scanner {
 public:
  explicit Scanner(std::string_view text);
  Statement next();

 private:
  void skip_space();
  std::string text_;  // the whole text, with comments blanked
  size_t at_ = 0;
  uint32_t line_ = 1;
};

std::string_view trim(std::string_view s);
// Returns the trimmed parts between commas that no bracket encloses.
std::vector<std::string_view> split_list(std::string_view s);

}  // namespace softgpu
