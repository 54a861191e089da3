#include "runtime/text/jinja/print.h"

#include <charconv>
#include <cmath>

#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/iterate.h"
#include "runtime/text/jinja/limits.h"
#include "runtime/text/jinja/loop.h"
#include "runtime/text/jinja/text.h"
#include "runtime/text/utf8.h"

namespace mkrt::jinja {
namespace {

void append_all(Arena& arena, const Advance& advance, std::string& text) {
  bool is_first = true;
  for (Value item; advance(item); is_first = false) {
    if (!is_first) text += ", ";
    append_repr(arena, item, text);
  }
}

void append_dict(Arena& arena, const Dict& dict, std::string& text) {
  text += '{';
  for (size_t i = 0; i < dict.items.size(); ++i) {
    const auto& [key, value] = dict.items[i];
    if (i > 0) text += ", ";
    append_repr(arena, key, text);
    text += ": ";
    append_repr(arena, value, text);
  }
  text += '}';
}

void append_view(Arena& arena, const Value& value, std::string& text) {
  constexpr const char* kNames[] = {"dict_keys([", "dict_values([", "dict_items(["};
  text += kNames[static_cast<size_t>(value.view().part)];
  append_all(arena, iterate(arena, value), text);
  text += "])";
}

void append_range(const Range& range, std::string& text) {
  text += fmt::format("range({}, {}", range.start, range.stop);
  text += range.step == 1 ? ")" : fmt::format(", {})", range.step);
}

void append_escape(char32_t c, std::string& text) {
  const auto code = static_cast<uint32_t>(c);
  text += c == '\n'     ? "\\n"
          : c == '\r'   ? "\\r"
          : c == '\t'   ? "\\t"
          : c < 0x100   ? fmt::format("\\x{:02x}", code)
          : c < 0x10000 ? fmt::format("\\u{:04x}", code)
                        : fmt::format("\\U{:08x}", code);
}

}  // namespace

std::string float_repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char digits[32];
  const char* end = std::to_chars(digits, digits + sizeof digits, number, std::chars_format::scientific).ptr;
  const std::string_view scientific(digits, static_cast<size_t>(end - digits));
  const size_t e = scientific.find('e');
  int exponent = 0;
  std::from_chars(scientific.data() + e + (scientific[e + 1] == '+' ? 2 : 1), end, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  char fixed[64];
  std::string text(fixed, std::to_chars(fixed, fixed + sizeof fixed, number, std::chars_format::fixed).ptr);
  if (text.find('.') == text.npos) text += ".0";
  return text;
}

std::string text_repr(std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string result(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t size = scan_utf8(text.substr(at)).size;
    const char32_t c = first_code_point(text.substr(at));
    if (c == '\\' || c == static_cast<char32_t>(quote)) result += '\\';
    if (is_printable(c))
      result += text.substr(at, size);
    else
      append_escape(c, result);
    at += size;
  }
  return result + quote;
}

void append_str(Arena& arena, const Value& value, std::string& text) {
  if (value.is_text()) {
    arena.read(value.text().bytes.size());
    text += value.text().bytes;
  } else if (!value.is_undefined()) {
    append_repr(arena, value, text);
  }
}

void append_repr(Arena& arena, const Value& value, std::string& text) {
  const Level level(arena);
  if (text.size() > kMaxOutputBytes) fail("the text of a value has more than {} MiB", kMaxOutputBytes >> 20);
  switch (value.kind()) {
    case ValueKind::kMissing:
    case ValueKind::kUndefined:
      text += "Undefined";
      return;
    case ValueKind::kNone:
      text += "None";
      return;
    case ValueKind::kBool:
      text += value.as_bool() ? "True" : "False";
      return;
    case ValueKind::kInt:
      text += std::to_string(value.as_integer());
      return;
    case ValueKind::kFloat:
      text += float_repr(value.as_real());
      return;
    case ValueKind::kText:
      arena.read(value.text().bytes.size());
      text += value.text().is_markup ? "Markup(" + text_repr(value.text().bytes) + ")"
                                     : text_repr(value.text().bytes);
      return;
    case ValueKind::kList:
    case ValueKind::kTuple: {
      const bool is_list = value.is(ValueKind::kList);
      text += is_list ? '[' : '(';
      append_all(arena, iterate(arena, value), text);
      if (!is_list && value.sequence().items.size() == 1) text += ',';
      text += is_list ? ']' : ')';
      return;
    }
    case ValueKind::kDict:
      return append_dict(arena, value.dict(), text);
    case ValueKind::kDictView:
      return append_view(arena, value, text);
    case ValueKind::kRange:
      return append_range(value.range(), text);
    case ValueKind::kNamespace:
      text += "<Namespace ";
      append_dict(arena, *value.name_space().attributes, text);
      text += '>';
      return;
    case ValueKind::kMacro: {
      const std::string& name = value.macro().statement.text;
      text += "<Macro " + (name.empty() ? "anonymous" : text_repr(name)) + ">";
      return;
    }
    case ValueKind::kLoop:
      text += fmt::format("<LoopContext {}/{}>", value.loop().index0 + 1, loop_length(value.loop()));
      return;
    case ValueKind::kFunction:
      fail("the function {} has no text of its own", value.function().name);
    case ValueKind::kIterator:
    case ValueKind::kCycler:
    case ValueKind::kJoiner:
      fail("{} has no text of its own: use a filter such as list", value.described());
  }
}

std::string to_str(Arena& arena, const Value& value) {
  std::string text;
  append_str(arena, value, text);
  return text;
}

std::string to_repr(Arena& arena, const Value& value) {
  std::string text;
  append_repr(arena, value, text);
  return text;
}

Value soft_str(Arena& arena, const Value& value) {
  return value.is_text() ? value : arena.text(to_str(arena, value));
}

}  // namespace mkrt::jinja
