// A template is cut into tokens, with blocks trimmed as the environment of transformers asks for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mkrt::jinja {

struct Token {
  enum class Kind : uint8_t {
    kText,
    kBlockBegin,
    kBlockEnd,
    kPrintBegin,
    kPrintEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };

  Kind kind;
  uint32_t line;
  std::string text;  // of strings: their value
  int64_t integer = 0;
  double real = 0;

  bool is_name(std::string_view name) const { return kind == Kind::kName && text == name; }
  bool is_operator(std::string_view sign) const { return kind == Kind::kOperator && text == sign; }
  std::string describe() const;  // for messages
};
using TokenKind = Token::Kind;

// Returns the tokens; the last one is kEnd. trim_blocks and lstrip_blocks are on, and one newline at the end
// of the source is dropped. Requires valid UTF-8. Faults: a tag without an end, a character outside the
// language.
std::vector<Token> tokenize(std::string_view source);

}  // namespace mkrt::jinja
