// Some characters have an upper case of several characters.
#pragma once

namespace mkrt::jinja {

// The source is Unicode's SpecialCasing.txt, entries without conditions.
struct SpecialCase {
  char32_t character;
  const char* upper;
  const char* title;
};

// Returns the entry of a character, or null.
const SpecialCase* find_special_case(char32_t character);

}  // namespace mkrt::jinja
