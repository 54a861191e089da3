#include "runtime/text/jinja/percent_format.h"

#include <algorithm>
#include <cmath>

#include "runtime/text/jinja/dict.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/format_spec.h"
#include "runtime/text/jinja/number.h"
#include "runtime/text/jinja/print.h"
#include "runtime/text/utf8.h"

namespace mkrt::jinja {
namespace {

class PercentFormat {
 public:
  PercentFormat(Arena& arena, std::string_view format, const Value& values)
      : arena_(arena), format_(format), values_(values) {}

  std::string run() {
    std::string text;
    while (at_ < format_.size()) {
      const size_t percent = std::min(format_.find('%', at_), format_.size());
      text += format_.substr(at_, percent - at_);
      at_ = percent;
      if (at_ < format_.size()) text += conversion();
      arena_.charge(text.size() / 16);
    }
    const bool is_mapping = values_.is(ValueKind::kDict) || values_.is(ValueKind::kList) ||
                            values_.is(ValueKind::kRange) || values_.is_undefined();
    if (taken_ < count() && !is_mapping) fail("the format has no place for all values");
    return text;
  }

 private:
  size_t count() const { return values_.is(ValueKind::kTuple) ? values_.sequence().items.size() : 1; }

  Value next_value() {
    if (taken_ >= count()) fail("the format has more places than values");
    ++taken_;
    return values_.is(ValueKind::kTuple) ? values_.sequence().items[taken_ - 1] : values_;
  }

  char take() {
    if (at_ >= format_.size()) fail("the format ends within a conversion");
    return format_[at_++];
  }
  bool sees(std::string_view any) const { return at_ < format_.size() && any.find(format_[at_]) != any.npos; }

  // Reads a key in parentheses and returns its value.
  Value named_value() {
    const size_t begin = ++at_;
    for (int open = 1; open > 0;) {
      const char c = take();
      open += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
    if (!values_.is(ValueKind::kDict)) fail("the format has a name, expected a dict of values");
    const std::string_view key = format_.substr(begin, at_ - 1 - begin);
    const Value* value = find(arena_, values_.dict(), key);
    if (value == nullptr) fail("the format has the name {}, which the values lack", key);
    return *value;
  }

  int64_t number() {
    if (sees("*")) {
      ++at_;
      const Value value = next_value();
      if (!value.is_integer() || std::abs(value.as_integer()) > kMaxFieldWidth)
        fail("a width needs a small integer");
      return value.as_integer();
    }
    int64_t result = 0;
    while (sees("0123456789")) {
      result = result * 10 + (take() - '0');
      if (result > kMaxFieldWidth) fail("a field of the format is wider than {}", kMaxFieldWidth);
    }
    return result;
  }

  std::string conversion() {
    ++at_;
    FormatSpec spec;
    bool left = false, zero = false;
    const bool has_name = sees("(");
    const Value named = has_name ? named_value() : Value();
    while (sees("-+ #0")) {
      const char flag = take();
      left |= flag == '-';
      zero |= flag == '0';
      spec.alternate |= flag == '#';
      if (flag == '+' || (flag == ' ' && spec.sign == '-')) spec.sign = flag;
    }
    spec.width = number();
    if (spec.width < 0) left = true;
    spec.width = std::abs(spec.width);
    if (sees(".")) {
      ++at_;
      spec.precision = std::max<int64_t>(number(), 0);
    }
    while (sees("hlL")) ++at_;
    const char type = take();
    if (type == '%') return "%";
    spec.align = left ? '<' : '>';
    if (zero && !left) spec.fill = "0";
    return convert(type, spec, has_name ? named : next_value());
  }

  std::string convert(char type, FormatSpec spec, const Value& value) {
    switch (type) {
      case 's':
      case 'r':
        return text(type == 's' ? to_str(arena_, value) : to_repr(arena_, value), spec);
      case 'c':
        return character(value, spec);
      case 'd':
      case 'i':
      case 'u':
        return integer(value, spec, 'd');
      case 'x':
      case 'X':
      case 'o':
        if (!value.is_integer()) fail("%{} needs an integer, found {}", type, value.described());
        return integer(value, spec, type);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!value.is_number()) fail("%{} needs a number, found {}", type, value.described());
        spec.type = type;
        if (spec.fill == "0") spec.align = '=';
        return format_float(value.as_real(), spec);
      default:
        fail("unsupported: the conversion %{}", type);
    }
  }

  static std::string text(const std::string& value, FormatSpec spec) {
    spec.fill = " ";
    spec.sign = '-';
    spec.alternate = false;
    return format_text(value, spec);
  }

  static std::string character(const Value& value, const FormatSpec& spec) {
    if (value.is_text() && value.text().length == 1) return text(value.text().bytes, spec);
    if (!value.is_integer() || value.as_integer() < 0 || value.as_integer() > 0x10FFFF ||
        (value.as_integer() >= 0xD800 && value.as_integer() < 0xE000))
      fail("%c needs a character or its number");
    std::string one;
    append_utf8(static_cast<char32_t>(value.as_integer()), one);
    return text(one, spec);
  }

  // The precision of an integer is its least number of digits.
  static std::string integer(const Value& value, FormatSpec spec, char type) {
    if (!value.is_number()) fail("%{} needs a number, found {}", type, value.described());
    const int64_t number = value.is_integer() ? value.as_integer() : truncate(value.as_real());
    spec.type = type;
    if (spec.precision) {
      FormatSpec digits{
          .fill = "0", .align = '=', .sign = spec.sign, .alternate = spec.alternate, .type = type};
      digits.width = *spec.precision + (number < 0 || spec.sign != '-' ? 1 : 0) +
                     (spec.alternate && type != 'd' ? 2 : 0);
      spec.precision.reset();
      const std::string shortest = format_integer(number, digits);
      FormatSpec field{.fill = spec.fill, .align = spec.align, .width = spec.width};
      if (spec.fill == "0") fail("unsupported: an integer with both zeros and a precision");
      return format_text(shortest, field);
    }
    if (spec.fill == "0") spec.align = '=';
    return format_integer(number, spec);
  }

  Arena& arena_;
  const std::string_view format_;
  const Value& values_;
  size_t at_ = 0;
  size_t taken_ = 0;
};

}  // namespace

Value percent_format(Arena& arena, const Text& format, const Value& values) {
  if (format.is_markup) fail("unsupported: the operator % on markup");
  arena.read(format.bytes.size());
  return arena.text(PercentFormat(arena, format.bytes, values).run());
}

}  // namespace mkrt::jinja
