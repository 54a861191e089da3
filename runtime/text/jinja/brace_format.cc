#include "runtime/text/jinja/brace_format.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "runtime/text/jinja/attributes.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/format_spec.h"
#include "runtime/text/jinja/print.h"

namespace mkrt::jinja {
namespace {

std::optional<int64_t> as_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number =
      !text.empty() && text[0] != '-' && code == std::errc() && end == text.data() + text.size();
  return is_number ? std::optional(number) : std::nullopt;
}

class BraceFormat {
 public:
  explicit BraceFormat(Call& call) : call_(call) {}

  // Fields may stand inside the format of a field, but no deeper.
  std::string run(std::string_view format, int depth) {
    std::string text;
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      if ((c == '{' || c == '}') && at + 1 < format.size() && format[at + 1] == c) {
        text += c;
        at += 2;
      } else if (c == '}') {
        fail("the format has a single }}");
      } else if (c == '{') {
        const size_t end = field_end(format, at);
        if (depth == 0) fail("the format has fields more than two levels deep");
        const std::string value = field(format.substr(at + 1, end - at - 1), depth);
        call_.arena.charge(value.size());
        text += value;
        at = end + 1;
      } else {
        text += c;
        ++at;
      }
      call_.arena.step();
    }
    call_.arena.charge(text.size());
    return text;
  }

 private:
  static size_t field_end(std::string_view format, size_t begin) {
    int open = 0;
    for (size_t at = begin; at < format.size(); ++at) {
      open += format[at] == '{' ? 1 : format[at] == '}' ? -1 : 0;
      if (open == 0) return at;
    }
    fail("a field of the format has no end: expected }}");
  }

  std::string field(std::string_view text, int depth) {
    const size_t name_end = std::min(text.find_first_of("!:"), text.size());
    Value value = find_value(text.substr(0, name_end));
    std::string_view rest = text.substr(name_end);
    if (rest.starts_with('!')) {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) fail("the format has a bad conversion");
      value = convert(value, rest[1]);
      rest.remove_prefix(2);
    }
    const std::string spec = rest.empty() ? "" : run(rest.substr(1), depth - 1);
    if (spec.empty()) return to_str(call_.arena, value);
    return format_value(value, parse_format_spec(spec));
  }

  Value convert(const Value& value, char type) {
    if (type == 's') return call_.arena.text(to_str(call_.arena, value));
    if (type == 'r') return call_.arena.text(to_repr(call_.arena, value));
    fail("unsupported: the conversion !{}", type);
  }

  Value find_value(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, first_end));
    for (size_t at = first_end; at < name.size();) {
      if (name[at] == '.') {
        const size_t end = std::min(name.find_first_of(".[", at + 1), name.size());
        value = get_attribute(call_.arena, value, std::string(name.substr(at + 1, end - at - 1)));
        at = end;
      } else {
        const size_t end = name.find(']', at);
        if (name[at] != '[' || end == name.npos) fail("the field {} of the format is not valid", name);
        const std::string_view key = name.substr(at + 1, end - at - 1);
        const std::optional<int64_t> index = as_number(key);
        value =
            get_item(call_.arena, value, index ? Value::integer(*index) : call_.arena.text(std::string(key)));
        at = end + 1;
      }
    }
    return value;
  }

  Value argument(std::string_view name) {
    std::optional<int64_t> index = as_number(name);
    is_manual_ |= index.has_value();
    if (name.empty()) index = automatic_++;
    if (is_manual_ && automatic_ > 0) fail("the format has numbered and unnumbered fields");
    if (index) {
      if (*index >= static_cast<int64_t>(call_.positional.size()))
        fail("the format has more fields than values");
      return call_.positional[static_cast<size_t>(*index)];
    }
    for (const auto& [keyword, value] : call_.keywords)
      if (keyword == name) return value;
    fail("the format has the field {}, which the values lack", name);
  }

  Call& call_;
  int64_t automatic_ = 0;   // unnumbered fields so far
  bool is_manual_ = false;  // a field had a number
};

}  // namespace

std::string brace_format(Call& call, std::string_view format) {
  return BraceFormat(call).run(format, 2);
}

}  // namespace mkrt::jinja
