// The text form is cut into tokens. This header is internal to parse.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/diag.h"

namespace mkc {

constexpr size_t kMaxWordBytes = 4096;

enum class TokenKind : uint8_t {
  kEnd,      // end of the text
  kNewline,  // one for any number of empty lines
  kWord,     // plain name or keyword
  kString,   // "…", a quoted name or text
  kTensor,   // %name, %"name" or %#7 (also grids)
  kEvent,    // @name, @"name" or @#7
  kInt,      // digits
  kFloat,    // digits with a fraction or an exponent
  kPunct,    // "->", ":+" or one character
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text{};      // names and strings stand without sigil, quotes and escapes
  bool is_number = false;  // %#7: `text` is "7"
  uint32_t line = 0, col = 0;

  bool is(std::string_view word) const {
    return (kind == TokenKind::kWord || kind == TokenKind::kPunct) && text == word;
  }
};

// Returns "'text'" or a description such as "end of line", for messages.
std::string describe(const Token& token);

// Returns the tokens of a text; the last is kEnd. Comments run from // to the end of the line. Errors:
// characters that begin no token, unfinished strings, words longer than kMaxWordBytes.
Result<std::vector<Token>> tokenize(std::string_view text, const std::string& file);

}  // namespace mkc
