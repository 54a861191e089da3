#include "ir/source_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/text.h"

namespace mkc {
namespace {

constexpr size_t kShownBytes = 200;  // on either side of the caret
constexpr std::string_view kCut = "…";

bool is_continuation(std::string_view text, size_t i) {
  return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
}

// Returns the bytes as a terminal may have them.
std::string escaped(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return out;
}

// Returns the first offset from `i` on at which no UTF-8 character goes on.
size_t behind_character(std::string_view line, size_t i) {
  for (size_t k = 0; k < 3 && is_continuation(line, i); ++k) ++i;
  return i;
}

}  // namespace

size_t character_bytes(std::string_view text, size_t i) {
  const auto lead = static_cast<unsigned char>(text[i]);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  for (size_t k = 1; k < length; ++k) {
    if (!is_continuation(text, i + k)) return 0;
  }
  const auto second = static_cast<unsigned char>(text[i + 1]);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second > 0x9F;
  const bool too_large = lead == 0xF4 && second > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

std::string line_with_caret(std::string_view line, uint32_t col) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t at = std::max(col, 1u) - 1, fault = std::min(at, line.size());
  const size_t begin = fault > kShownBytes ? behind_character(line, fault - kShownBytes) : 0;
  const size_t end =
      line.size() - fault > kShownBytes ? behind_character(line, fault + kShownBytes) : line.size();
  std::string shown(begin > 0 ? kCut : ""), margin(begin > 0 ? " " : "");
  size_t bytes = 0;
  for (size_t i = begin; i < end; i += bytes) {
    bytes = std::max<size_t>(character_bytes(line, i), 1);
    const std::string_view character = line.substr(i, bytes);
    const bool tab = character == "\t";
    const bool raw = tab || (character_bytes(line, i) != 0 && !has_control(character));
    const std::string text = raw ? std::string(character) : escaped(character);
    shown += text;
    if (i + bytes <= fault) margin += tab ? "\t" : std::string(raw ? 1 : text.size(), ' ');
  }
  if (end < line.size()) shown += kCut;
  return fmt::format("{}\n{}{}^", shown, margin, std::string(at - fault, ' '));
}

}  // namespace mkc
