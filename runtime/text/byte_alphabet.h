// Byte-level tokenizers have an alphabet of one visible character for each of the 256 bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mkrt {

// Appends the character that stands for each byte. Printable characters of Latin-1 stand for themselves. The
// other bytes, in order, are U+0100, U+0101, … (GPT-2's alphabet). A space becomes U+0120, and a newline
// U+010A.
void append_byte_alphabet(std::string_view bytes, std::string& text);

// Returns the bytes that a text stands for, or nothing if a character is not of the alphabet. Requires valid
// UTF-8.
std::optional<std::string> bytes_of_alphabet(std::string_view text);

}  // namespace mkrt
