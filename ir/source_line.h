// Errors show the line of a file that they are about, with a caret below the byte at fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mkc {

// Returns the bytes of the well-formed UTF-8 character at byte `i` (Unicode 15, table 3-7), or 0.
size_t character_bytes(std::string_view text, size_t i);

// Returns the line with a second line whose caret is below the byte of column `col`, counted from 1. Wide
// characters count as one column. Control characters but tabs, and bytes that are no UTF-8, become \xHH, so
// that no file can send any to a terminal. A long line is cut around the caret.
std::string line_with_caret(std::string_view line, uint32_t col);

}  // namespace mkc
