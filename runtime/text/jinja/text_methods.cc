// These methods of text handle letter case, padding, kinds of characters, joins and formats.
#include <algorithm>

#include "runtime/text/jinja/brace_format.h"
#include "runtime/text/jinja/call.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/format_spec.h"
#include "runtime/text/jinja/iterate.h"
#include "runtime/text/jinja/methods.h"
#include "runtime/text/jinja/text.h"
#include "runtime/text/utf8.h"

namespace mkrt::jinja {
namespace {

const std::string& self(const Call& call) {
  return call.receiver.text().bytes;
}

Value result(Call& call, std::string text) {
  return call.arena.text(std::move(text), call.receiver.text().is_markup);
}

template <std::string (*map)(std::string_view)>
Value mapped(Call& call) {
  call.finish();
  call.arena.decode(self(call).size());
  return result(call, map(self(call)));
}

// Returns whether there are characters and all of them pass.
template <bool (*passes)(char32_t)>
Value all_are(Call& call) {
  call.finish();
  call.arena.decode(self(call).size());
  const std::u32string all = decode(self(call));
  return Value::boolean(!all.empty() && std::all_of(all.begin(), all.end(), passes));
}

// Returns whether there are characters with case and all of those pass.
template <bool (*passes)(char32_t)>
Value all_cased_are(Call& call) {
  call.finish();
  call.arena.decode(self(call).size());
  const std::u32string all = decode(self(call));
  const bool any = std::any_of(all.begin(), all.end(), passes);
  return Value::boolean(
      any && std::all_of(all.begin(), all.end(), [](char32_t c) { return passes(c) || !is_cased(c); }));
}

bool is_ascii_digit(char32_t c) {
  if (c >= 0x80) fail("unsupported: kinds of characters outside of ASCII digits");
  return c >= '0' && c <= '9';
}
bool is_letter(char32_t c) {
  return c != '_' && is_identifier(c, true);
}
bool is_letter_or_digit(char32_t c) {
  return is_letter(c) || (c < 0x80 ? is_ascii_digit(c) : is_identifier(c, false));
}

Value is_ascii_text(Call& call) {
  call.finish();
  return Value::boolean(call.receiver.text().is_ascii());
}

template <char align>
Value padded(Call& call) {
  const int64_t width = call.take_integer("");
  const std::string_view fill = call.take_optional_text("").value_or(" ");
  call.finish();
  if (count_code_points(fill) != 1) fail("the fill of {} needs to be one character", call.name);
  const auto length = static_cast<int64_t>(call.receiver.text().length);
  if (width > kMaxFieldWidth) fail("a width of {} is too large: at most {}", width, kMaxFieldWidth);
  const int64_t missing = std::max<int64_t>(width - length, 0);
  // An odd rest goes to the left where the width is odd, as in Python.
  const int64_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2 + (missing & width & 1);
  std::string before, behind;
  for (int64_t i = 0; i < left; ++i) before += fill;
  for (int64_t i = left; i < missing; ++i) behind += fill;
  return result(call, before + self(call) + behind);
}

Value zero_filled(Call& call) {
  const int64_t width = call.take_integer("");
  call.finish();
  FormatSpec spec{.fill = "0", .align = '>', .width = width};
  if (width > kMaxFieldWidth) fail("a width of {} is too large: at most {}", width, kMaxFieldWidth);
  const bool has_sign = self(call).starts_with('-') || self(call).starts_with('+');
  if (!has_sign) return result(call, format_text(self(call), spec));
  --spec.width;
  return result(call, self(call)[0] + format_text(std::string_view(self(call)).substr(1), spec));
}

Value join(Call& call) {
  const Value items = call.take("");
  call.finish();
  std::string text;
  bool is_first = true;
  const Advance advance = iterate(call.arena, items);
  for (Value item; advance(item); is_first = false) {
    if (!item.is_text()) fail("join: found {}, expected text", item.described());
    const std::string& more = item.text().bytes;
    call.arena.charge(more.size() + self(call).size());
    if (!is_first) text += self(call);
    text += more;
  }
  return result(call, std::move(text));
}

Value format(Call& call) {
  return call.arena.text(brace_format(call, self(call)));
}

Value expand_tabs(Call& call) {
  const int64_t size = call.take_integer("tabsize", 8);
  call.finish();
  if (size > kMaxFieldWidth) fail("a tab of {} is too large: at most {}", size, kMaxFieldWidth);
  std::string text;
  int64_t column = 0;
  for (const char32_t c : decode(self(call))) {
    const int64_t spaces = c == '\t' && size > 0 ? size - column % size : 0;
    call.arena.charge(static_cast<size_t>(spaces) + 1);
    text.append(static_cast<size_t>(spaces), ' ');
    if (c != '\t') append_utf8(c, text);
    column = c == '\n' || c == '\r' ? 0 : column + (c == '\t' ? spaces : 1);
  }
  return result(call, std::move(text));
}

}  // namespace

std::span<const Method> text_methods() {
  static constexpr Method kMethods[] = {{"capitalize", mapped<capitalize>},
                                        {"casefold", mapped<case_fold>},
                                        {"lower", mapped<to_lower>},
                                        {"swapcase", mapped<swap_case>},
                                        {"title", mapped<title_case>},
                                        {"upper", mapped<to_upper>},
                                        {"isalnum", all_are<is_letter_or_digit>},
                                        {"isalpha", all_are<is_letter>},
                                        {"isascii", is_ascii_text},
                                        {"isdecimal", all_are<is_ascii_digit>},
                                        {"isdigit", all_are<is_ascii_digit>},
                                        {"isnumeric", all_are<is_ascii_digit>},
                                        {"isspace", all_are<is_space>},
                                        {"islower", all_cased_are<is_lower>},
                                        {"isupper", all_cased_are<is_upper>},
                                        {"center", padded<'^'>},
                                        {"ljust", padded<'<'>},
                                        {"rjust", padded<'>'>},
                                        {"zfill", zero_filled},
                                        {"join", join},
                                        {"format", format},
                                        {"expandtabs", expand_tabs},
                                        {"encode", nullptr},
                                        {"format_map", nullptr},
                                        {"isidentifier", nullptr},
                                        {"isprintable", nullptr},
                                        {"istitle", nullptr},
                                        {"maketrans", nullptr},
                                        {"translate", nullptr}};
  return kMethods;
}

}  // namespace mkrt::jinja
