// Text consists of code points, with Python's notions of white space, lines and letter case.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mkrt::jinja {

// All functions require valid UTF-8.

size_t count_code_points(std::string_view text);
// Returns the bytes of the first `count` code points, or of all if there are fewer.
size_t prefix_bytes(std::string_view text, size_t count);
std::u32string decode(std::string_view text);
std::string encode(std::u32string_view text);

constexpr bool is_digit(char c) {  // of ASCII
  return c >= '0' && c <= '9';
}
bool is_space(char32_t c);
bool is_line_break(char32_t c);
bool is_printable(char32_t c);
// Returns the value of a decimal digit of any script, or -1 for another character.
int decimal_digit(char32_t c);
bool is_word(char32_t c);  // a letter, a number or an underscore
// Returns whether the character may begin a name of the language, or go on with one.
bool is_identifier(char32_t c, bool begins);

// The two functions return the bytes of the white space at an end of the text.
size_t leading_spaces(std::string_view text);
size_t trailing_spaces(std::string_view text);
std::string_view strip(std::string_view text);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string case_fold(std::string_view text);
std::string capitalize(std::string_view text);
std::string title_case(std::string_view text);  // of str.title
std::string swap_case(std::string_view text);
bool is_cased(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);

// Returns the lines, with their breaks or without. No empty line follows the last break.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_breaks);

}  // namespace mkrt::jinja
