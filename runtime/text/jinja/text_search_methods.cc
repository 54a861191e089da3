// These methods of text find, count, replace, split and strip.
#include <algorithm>

#include "runtime/text/jinja/call.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/methods.h"
#include "runtime/text/jinja/search.h"
#include "runtime/text/jinja/text.h"

namespace mkrt::jinja {
namespace {

const std::string& self(const Call& call) {
  return call.receiver.text().bytes;
}

Value result(Call& call, std::string_view text) {
  return call.arena.text(std::string(text), call.receiver.text().is_markup);
}

Value results(Call& call, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(result(call, part));
  return call.arena.list(std::move(items));
}

// Window is the part of a text that a search looks at.
struct Window {
  std::string_view text;
  int64_t start;  // the code points before it
  bool is_valid;  // the start is not behind the end
};

Window take_window(Call& call) {
  const Value start = call.take("", Value::none()), stop = call.take("", Value::none());
  call.finish();
  call.arena.read(self(call).size());
  const auto length = static_cast<int64_t>(call.receiver.text().length);
  const Slice slice = resolve_slice(length, start, stop, Value::none());
  const bool starts_behind = start.is_integer() && start.as_integer() > length;
  const Slice end =
      resolve_slice(length, stop.is_none() ? Value::integer(length) : stop, Value::none(), Value::none());
  const std::string_view rest =
      std::string_view(self(call)).substr(prefix_bytes(self(call), static_cast<size_t>(slice.start)));
  return {rest.substr(0, prefix_bytes(rest, static_cast<size_t>(slice.count))), slice.start,
          !starts_behind && slice.start <= end.start};
}

int64_t find_in_window(Call& call, bool from_end) {
  const std::string_view wanted = call.take_text("");
  const Window window = take_window(call);
  if (!window.is_valid) return -1;
  const size_t at = from_end ? find_last(call.arena, window.text, wanted) : find_first(window.text, wanted);
  if (at == window.text.npos) return -1;
  return window.start + static_cast<int64_t>(count_code_points(window.text.substr(0, at)));
}

template <bool from_end>
Value find(Call& call) {
  return Value::integer(find_in_window(call, from_end));
}

template <bool from_end>
Value index(Call& call) {
  const int64_t found = find_in_window(call, from_end);
  if (found < 0) fail("{}: the text has no such part", call.name);
  return Value::integer(found);
}

Value count(Call& call) {
  const std::string_view wanted = call.take_text("");
  const Window window = take_window(call);
  if (!window.is_valid) return Value::integer(0);
  if (wanted.empty()) return Value::integer(static_cast<int64_t>(count_code_points(window.text)) + 1);
  return Value::integer(static_cast<int64_t>(split_at(window.text, wanted, -1).size()) - 1);
}

// Returns whether the text begins or ends with the argument, or with one of a tuple.
template <bool at_end>
Value has_affix(Call& call) {
  const Value wanted = call.take("");
  const Window window = take_window(call);
  const auto has = [&](const Value& affix) {
    if (!affix.is_text()) fail("{}: found {}, expected text", call.name, affix.described());
    const std::string& text = affix.text().bytes;
    return window.is_valid && (at_end ? window.text.ends_with(text) : window.text.starts_with(text));
  };
  if (!wanted.is(Value::Kind::kTuple)) return Value::boolean(has(wanted));
  const std::vector<Value>& affixes = wanted.sequence().items;
  return Value::boolean(std::any_of(affixes.begin(), affixes.end(), has));
}

template <bool at_end>
Value without_affix(Call& call) {
  const std::string_view affix = call.take_text("");
  call.finish();
  std::string_view text = self(call);
  if (at_end && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!at_end && text.starts_with(affix)) text.remove_prefix(affix.size());
  return result(call, text);
}

Value replace(Call& call) {
  const std::string_view old = call.take_text(""), by = call.take_text("");
  const int64_t limit = call.take_integer("", -1);
  call.finish();
  if (call.receiver.text().is_markup) fail("unsupported: the method replace of markup");
  return call.arena.text(replace_all(call.arena, self(call), old, by, limit));
}

template <bool from_end>
Value split(Call& call) {
  const std::optional<std::string_view> separator = call.take_optional_text("sep");
  const int64_t limit = call.take_integer("maxsplit", -1);
  call.finish();
  call.arena.read(self(call).size());
  if (separator && separator->empty()) fail("{}: the separator is empty", call.name);
  if (!separator)
    return results(call, from_end ? split_words_from_end(self(call), limit) : split_words(self(call), limit));
  return results(call, from_end ? split_at_from_end(call.arena, self(call), *separator, limit)
                                : split_at(self(call), *separator, limit));
}

Value split_text_lines(Call& call) {
  const bool keep_breaks = call.take_bool("keepends", false);
  call.finish();
  call.arena.read(self(call).size());
  return results(call, split_lines(self(call), keep_breaks));
}

template <bool left, bool right>
Value stripped(Call& call) {
  const std::optional<std::string_view> characters = call.take_optional_text("");
  call.finish();
  call.arena.read(self(call).size());
  call.arena.decode(characters ? characters->size() : 0);
  return result(call, strip_characters(self(call), characters, left, right));
}

template <bool from_end>
Value partition(Call& call) {
  const std::string_view separator = call.take_text("");
  call.finish();
  if (separator.empty()) fail("{}: the separator is empty", call.name);
  const std::string_view text = self(call);
  const size_t at = from_end ? find_last(call.arena, text, separator) : find_first(text, separator);
  if (at == text.npos) {
    const Value empty = result(call, ""), all = result(call, text);
    return from_end ? call.arena.tuple({empty, empty, all}) : call.arena.tuple({all, empty, empty});
  }
  return call.arena.tuple({result(call, text.substr(0, at)), result(call, separator),
                           result(call, text.substr(at + separator.size()))});
}

}  // namespace

std::span<const Method> text_search_methods() {
  static constexpr Method kMethods[] = {{"find", find<false>},
                                        {"rfind", find<true>},
                                        {"index", index<false>},
                                        {"rindex", index<true>},
                                        {"count", count},
                                        {"startswith", has_affix<false>},
                                        {"endswith", has_affix<true>},
                                        {"removeprefix", without_affix<false>},
                                        {"removesuffix", without_affix<true>},
                                        {"replace", replace},
                                        {"split", split<false>},
                                        {"rsplit", split<true>},
                                        {"splitlines", split_text_lines},
                                        {"strip", stripped<true, true>},
                                        {"lstrip", stripped<true, false>},
                                        {"rstrip", stripped<false, true>},
                                        {"partition", partition<false>},
                                        {"rpartition", partition<true>}};
  return kMethods;
}

}  // namespace mkrt::jinja
