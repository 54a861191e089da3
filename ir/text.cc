#include "ir/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/source_line.h"

namespace mkc {
namespace {

constexpr std::array<std::string_view, 5> kWords = {"min", "max", "floordiv", "ceildiv", "mod"};

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

// Tells whether a text of UTF-8 begins with a control character of U+0080 to U+009F.
bool begins_c1(std::string_view text) {
  return text.size() >= 2 && text[0] == '\xc2' && static_cast<unsigned char>(text[1]) >= 0x80 &&
         static_cast<unsigned char>(text[1]) < 0xa0;
}

}  // namespace

bool has_control(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i)
    if (is_control(text[i]) || begins_c1(text.substr(i))) return true;
  return false;
}

const char* keyword(TensorKind kind) {
  switch (kind) {
    case TensorKind::kInput:
      return "input";
    case TensorKind::kWeight:
      return "weight";
    case TensorKind::kActivation:
      return "activation";
    case TensorKind::kCache:
      return "cache";
    case TensorKind::kOutput:
      return "output";
    case TensorKind::kTable:
      return "table";
  }
  MKC_BUG("tensor of unknown kind");
}

bool starts_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool continues_name(char c) {
  return starts_name(c) || (c >= '0' && c <= '9') || c == '.';
}

std::string spell_name(std::string_view name) {
  const bool plain = !name.empty() && starts_name(name[0]) &&
                     std::all_of(name.begin(), name.end(), continues_name) &&
                     std::find(kWords.begin(), kWords.end(), name) == kWords.end();
  return plain ? std::string(name) : spell_string(name);
}

std::string spell_string(std::string_view text) {
  std::string out = "\"";
  size_t bytes = 0;
  for (size_t i = 0; i < text.size(); i += bytes) {
    bytes = std::max<size_t>(character_bytes(text, i), 1);
    const std::string_view character = text.substr(i, bytes);
    if (character == "\"" || character == "\\")
      out += fmt::format("\\{}", character);
    else if (character_bytes(text, i) == 0 || has_control(character))
      for (const char c : character) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += character;
  }
  return out + '"';
}

std::string spell_double(double value) {
  std::string text = fmt::format("{:.17g}", value);
  if (std::isfinite(value) && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace mkc
