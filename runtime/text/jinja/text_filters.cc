// These filters make text.
#include <algorithm>

#include "runtime/text/jinja/arithmetic.h"
#include "runtime/text/jinja/call.h"
#include "runtime/text/jinja/dict.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/filters.h"
#include "runtime/text/jinja/format_spec.h"
#include "runtime/text/jinja/iterate.h"
#include "runtime/text/jinja/json_dump.h"
#include "runtime/text/jinja/lazy.h"
#include "runtime/text/jinja/percent_format.h"
#include "runtime/text/jinja/print.h"
#include "runtime/text/jinja/search.h"
#include "runtime/text/jinja/text.h"

namespace mkrt::jinja {
namespace {

const Text& take_input(Call& call) {
  return soft_str(call.arena, call.take("value")).text();
}

template <std::string (*map)(std::string_view)>
Value mapped(Call& call) {
  const Text& text = take_input(call);
  call.finish();
  call.arena.decode(text.bytes.size());
  return call.arena.text(map(text.bytes), text.is_markup);
}

// Words begin behind white space, hyphens and opening brackets.
std::string title_words(std::string_view text) {
  std::string result, word;
  const auto flush = [&] {
    const size_t first = prefix_bytes(word, 1);
    result +=
        to_upper(std::string_view(word).substr(0, first)) + to_lower(std::string_view(word).substr(first));
    word.clear();
  };
  for (const char32_t c : decode(text)) {
    if (!is_space(c) && std::u32string_view(U"-({[<").find(c) == std::u32string_view::npos) {
      word += encode({&c, 1});
      continue;
    }
    flush();
    result += encode({&c, 1});
  }
  flush();
  return result;
}

Value title(Call& call) {
  const Text& text = take_input(call);
  call.finish();
  call.arena.decode(text.bytes.size() * 2);
  return call.arena.text(title_words(text.bytes));
}

Value trim(Call& call) {
  const Text& text = take_input(call);
  const std::optional<std::string_view> characters = call.take_optional_text("chars");
  call.finish();
  call.arena.read(text.bytes.size());
  call.arena.decode(characters ? characters->size() : 0);
  return call.arena.text(std::string(strip_characters(text.bytes, characters, true, true)), text.is_markup);
}

Value replace(Call& call) {
  const std::string text = to_str(call.arena, call.take("s"));
  const std::string old = to_str(call.arena, call.take("old")), by = to_str(call.arena, call.take("new"));
  const int64_t limit = call.take_optional_integer("count").value_or(-1);
  call.finish();
  return call.arena.text(replace_all(call.arena, text, old, by, limit));
}

Value string(Call& call) {
  const Value value = call.take("s");
  call.finish();
  return soft_str(call.arena, value);
}

Value safe(Call& call) {
  const Value value = call.take("value");
  call.finish();
  return call.arena.text(to_str(call.arena, value), true);
}

Value escape(Call& call) {
  const Value value = call.take("s");
  call.finish();
  if (value.is_text() && value.text().is_markup) return value;
  return call.arena.text(escape_html(to_str(call.arena, value)), true);
}

Value force_escape(Call& call) {
  const Value value = call.take("value");
  call.finish();
  return call.arena.text(escape_html(to_str(call.arena, value)), true);
}

Value join(Call& call) {
  const Value items = call.take("value");
  const std::string separator = to_str(call.arena, call.take("d", call.arena.text("")));
  const Value attribute = call.take("attribute", Value::none());
  call.finish();
  std::string text;
  bool is_first = true;
  const Advance advance = iterate(call.arena, items);
  for (Value item; advance(item); is_first = false) {
    if (!is_first) text += separator;
    const size_t before = text.size();
    append_str(call.arena, attribute.is_none() ? item : get_path(call.arena, item, attribute), text);
    call.arena.charge(text.size() - before + separator.size());
  }
  return call.arena.text(std::move(text));
}

Value indent(Call& call) {
  const Value input = call.take("s");
  const Value width = call.take("width", Value::integer(4));
  const bool first = call.take_bool("first", false), blank = call.take_bool("blank", false);
  call.finish();
  if (!input.is_text()) fail("indent: found {}, expected text", input.described());
  if (!width.is_text() && to_index(width, "indent") > kMaxFieldWidth)
    fail("indent: a width of {} is too large: at most {}", width.as_integer(), kMaxFieldWidth);
  const std::string spaces =
      width.is_text() ? width.text().bytes
                      : std::string(static_cast<size_t>(std::max<int64_t>(width.as_integer(), 0)), ' ');
  const std::string all = input.text().bytes + "\n";
  std::string text = first ? spaces : "";
  bool is_first = true;
  for (const std::string_view line : split_lines(all, false)) {
    call.arena.charge(spaces.size() + line.size());
    if (!is_first) text += '\n';
    if (!is_first && (blank || !line.empty())) text += spaces;
    text += line;
    is_first = false;
  }
  return call.arena.text(std::move(text), input.text().is_markup);
}

Value center(Call& call) {
  const Text& text = take_input(call);
  const int64_t width = call.take_integer("width", 80);
  call.finish();
  if (width > kMaxFieldWidth) fail("center: a width of {} is too large: at most {}", width, kMaxFieldWidth);
  const int64_t missing = std::max<int64_t>(width - static_cast<int64_t>(text.length), 0);
  const int64_t left = missing / 2 + (missing & width & 1);
  return call.arena.text(std::string(static_cast<size_t>(left), ' ') + text.bytes +
                             std::string(static_cast<size_t>(missing - left), ' '),
                         text.is_markup);
}

Value truncate_text(Call& call) {
  const Value input = call.take("s");
  const int64_t length = call.take_integer("length", 255);
  const bool cuts_words = call.take_bool("killwords", false);
  const Value end = call.take("end", call.arena.text("..."));
  const int64_t leeway = call.take_optional_integer("leeway").value_or(5);
  call.finish();
  const int64_t size = length_of(input);
  if (size < 0 || !end.is_text()) fail("truncate: found {}, expected text", input.described());
  const auto kept = length - static_cast<int64_t>(end.text().length);
  if (kept < 0 || leeway < 0) fail("truncate: the length {} or the leeway {} is too small", length, leeway);
  if (size - leeway <= length) return input;
  if (!input.is_text()) fail("truncate: found {}, expected text", input.described());
  const std::string_view text = input.text().bytes;
  call.arena.read(text.size());
  std::string_view result = text.substr(0, prefix_bytes(text, static_cast<size_t>(kept)));
  if (!cuts_words) result = result.substr(0, std::min(result.rfind(' '), result.size()));
  return call.arena.text(std::string(result) + end.text().bytes);
}

Value word_count(Call& call) {
  const Text& text = take_input(call);
  call.finish();
  call.arena.decode(text.bytes.size());
  int64_t words = 0;
  bool inside = false;
  for (const char32_t c : decode(text.bytes)) {
    words += is_word(c) && !inside ? 1 : 0;
    inside = is_word(c);
  }
  return Value::integer(words);
}

Value format(Call& call) {
  const Text& text = take_input(call);
  std::vector<Value> values(call.positional.begin() + 1, call.positional.end());
  if (call.keywords.empty()) return percent_format(call.arena, text, call.arena.tuple(std::move(values)));
  if (!values.empty()) fail("format: found both positional and named values");
  Dict* named = call.arena.make<Dict>(0);
  for (const auto& [name, value] : call.keywords) put(call.arena, *named, call.arena.text(name), value);
  return percent_format(call.arena, text, named);
}

}  // namespace

std::span<const Method> text_filters() {
  static constexpr Method kFilters[] = {{"capitalize", mapped<capitalize>},
                                        {"lower", mapped<to_lower>},
                                        {"upper", mapped<to_upper>},
                                        {"title", title},
                                        {"trim", trim},
                                        {"replace", replace},
                                        {"string", string},
                                        {"safe", safe},
                                        {"e", escape},
                                        {"escape", escape},
                                        {"forceescape", force_escape},
                                        {"join", join},
                                        {"indent", indent},
                                        {"center", center},
                                        {"truncate", truncate_text},
                                        {"wordcount", word_count},
                                        {"format", format},
                                        {"tojson", to_json}};
  return kFilters;
}

}  // namespace mkrt::jinja
