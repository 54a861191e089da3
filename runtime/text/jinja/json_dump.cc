#include "runtime/text/jinja/json_dump.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <optional>

#include "runtime/text/jinja/compare.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/format_spec.h"
#include "runtime/text/jinja/limits.h"
#include "runtime/text/jinja/print.h"
#include "runtime/text/utf8.h"

namespace mkrt::jinja {
namespace {

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // of one level; nothing: all on one line
  std::string item_separator, key_separator;
};

class JsonWriter {
 public:
  JsonWriter(Arena& arena, const JsonStyle& style) : arena_(arena), style_(style) {}

  void write(const Value& value) {
    const Level level(arena_);
    switch (value.kind()) {
      case ValueKind::kNone:
        text_ += "null";
        return;
      case ValueKind::kBool:
        text_ += value.as_bool() ? "true" : "false";
        return;
      case ValueKind::kInt:
        text_ += std::to_string(value.as_integer());
        return;
      case ValueKind::kFloat:
        text_ += number(value.as_real());
        return;
      case ValueKind::kText:
        write_text(value.text().bytes);
        return;
      case ValueKind::kList:
      case ValueKind::kTuple:
        write_list(value.sequence());
        return;
      case ValueKind::kDict:
        write_dict(value.dict());
        return;
      case ValueKind::kMissing:
      case ValueKind::kUndefined:
      case ValueKind::kDictView:
      case ValueKind::kRange:
      case ValueKind::kIterator:
      case ValueKind::kNamespace:
      case ValueKind::kMacro:
      case ValueKind::kLoop:
      case ValueKind::kFunction:
      case ValueKind::kCycler:
      case ValueKind::kJoiner:
        break;
    }
    if (value.is_undefined()) fail("tojson: {}", value.undefined().message);
    fail("tojson: {} cannot be written as JSON", value.described());
  }

  std::string take() { return std::move(text_); }

 private:
  static std::string number(double real) {
    if (std::isnan(real)) return "NaN";
    if (std::isinf(real)) return real < 0 ? "-Infinity" : "Infinity";
    return float_repr(real);
  }

  void write_escape(uint32_t unit) { text_ += fmt::format("\\u{:04x}", unit); }

  void write_wide(char32_t c) {
    if (c >= 0x10000) {
      write_escape(0xD800 + ((static_cast<uint32_t>(c) - 0x10000) >> 10));
      write_escape(0xDC00 + ((static_cast<uint32_t>(c) - 0x10000) & 0x3FF));
    } else {
      write_escape(static_cast<uint32_t>(c));
    }
  }

  void write_text(std::string_view text) {
    constexpr std::string_view kSpecial = "\"\\\n\r\t\f\b";
    constexpr std::string_view kLetters = "\"\\nrtfb";
    arena_.read(text.size());
    text_ += '"';
    for (size_t at = 0; at < text.size();) {
      const size_t size = scan_utf8(text.substr(at)).size;
      const char c = text[at];
      const size_t special = kSpecial.find(c);
      if (special != kSpecial.npos)
        text_.append("\\").append(1, kLetters[special]);
      else if (size > 1 && style_.ensure_ascii)
        write_wide(first_code_point(text.substr(at)));
      else if (static_cast<unsigned char>(c) < 0x20)
        write_escape(static_cast<unsigned char>(c));
      else
        text_ += text.substr(at, size);
      at += size;
    }
    text_ += '"';
    check_size();
  }

  void check_size() const {
    if (text_.size() > kMaxOutputBytes) fail("tojson: the text has more than {} MiB", kMaxOutputBytes >> 20);
  }

  void new_line() {
    if (!style_.indent) return;
    text_ += '\n';
    for (size_t i = 0; i < levels_; ++i) text_ += *style_.indent;
    check_size();
  }

  void write_list(const Sequence& list) {
    if (list.items.empty()) {
      text_ += "[]";
      return;
    }
    text_ += '[';
    ++levels_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) text_ += style_.item_separator;
      new_line();
      write(list.items[i]);
    }
    --levels_;
    new_line();
    text_ += ']';
  }

  void write_key(const Value& key) {
    if (key.is_text()) return write_text(key.text().bytes);
    if (!key.is_none() && !key.is_number()) fail("tojson: {} cannot be a key of JSON", key.described());
    text_ += '"';
    write(key);
    text_ += '"';
  }

  void write_dict(const Dict& dict) {
    if (dict.items.empty()) {
      text_ += "{}";
      return;
    }
    std::list<std::pair<Value, Value>> items(dict.items.begin(), dict.items.end());
    if (style_.sort_keys)
      items.sort([&](const auto& left, const auto& right) { return less(arena_, left.first, right.first); });
    text_ += '{';
    ++levels_;
    bool is_first = true;
    for (const auto& [key, value] : items) {
      if (!is_first) text_ += style_.item_separator;
      is_first = false;
      new_line();
      write_key(key);
      text_ += style_.key_separator;
      write(value);
    }
    --levels_;
    new_line();
    text_ += '}';
  }

  Arena& arena_;
  const JsonStyle& style_;
  std::string text_;
  size_t levels_ = 0;
};

std::string separator(const Value& separators, size_t index) {
  if (!separators.is_sequence() || separators.sequence().items.size() != 2 ||
      !separators.sequence().items[index].is_text())
    fail("tojson: separators need to be two texts");
  return separators.sequence().items[index].text().bytes;
}

std::optional<std::string> indentation(const Value& indent) {
  if (indent.is_none()) return std::nullopt;
  if (indent.is_text()) return indent.text().bytes;
  const int64_t width = to_index(indent, "tojson");
  if (width > kMaxFieldWidth) fail("tojson: an indent of {} is too large: at most {}", width, kMaxFieldWidth);
  return std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
}

}  // namespace

Value to_json(Call& call) {
  JsonStyle style;
  const Value value = call.take("x");
  style.ensure_ascii = call.take_bool("ensure_ascii", false);
  style.indent = indentation(call.take("indent", Value::none()));
  const Value separators = call.take("separators", Value::none());
  style.sort_keys = call.take_bool("sort_keys", false);
  call.finish();
  style.item_separator = separators.is_none() ? (style.indent ? "," : ", ") : separator(separators, 0);
  style.key_separator = separators.is_none() ? ": " : separator(separators, 1);
  JsonWriter writer(call.arena, style);
  writer.write(value);
  return call.arena.text(writer.take());
}

}  // namespace mkrt::jinja
