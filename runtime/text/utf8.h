// UTF-8 is decoded and encoded one character at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mkrt {

enum class Utf8State : uint8_t {
  kComplete,    // the bytes start with a whole character
  kBroken,      // the bytes cannot start a character, whatever follows
  kIncomplete,  // all bytes together are the begin of a character
};

// Utf8Front describes the front of a byte string. A broken front is as long as the standard's "maximal
// subpart" (Unicode 15, section 3.9). One replacement character stands for it.
struct Utf8Front {
  Utf8State state;
  size_t size;
};

// Returns the front of `bytes`, which must not be empty. Surrogates, overlong forms and values past U+10FFFF
// are broken.
Utf8Front scan_utf8(std::string_view bytes);

// Returns the offset of the first byte that is not part of a valid character, or nothing.
std::optional<size_t> find_invalid_utf8(std::string_view bytes);

// Returns what is wrong with a text that is not valid UTF-8, for an error, or nothing.
std::optional<std::string> utf8_fault(std::string_view text);

// The two functions return the code point of the first and of the last character. Both functions require
// valid UTF-8 that is not empty.
char32_t first_code_point(std::string_view text);
char32_t last_code_point(std::string_view text);

void append_utf8(char32_t code_point, std::string& text);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace mkrt
