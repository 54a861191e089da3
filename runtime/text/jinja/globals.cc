#include "runtime/text/jinja/globals.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "runtime/text/jinja/attributes.h"
#include "runtime/text/jinja/call.h"
#include "runtime/text/jinja/dict.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/iterate.h"
#include "runtime/text/jinja/limits.h"
#include "runtime/text/jinja/print.h"

namespace mkrt::jinja {
namespace {

Value range(Call& call) {
  const int64_t first = call.take_integer("");
  const Value second = call.take("", Value());
  const int64_t step = call.take_integer("", 1);
  call.finish();
  if (step == 0) fail("range: the step is 0");
  const bool has_stop = !second.is(Value::Kind::kMissing);
  const int64_t start = has_stop ? first : 0, stop = has_stop ? to_index(second, "range") : first;
  Range* range = call.arena.make<Range>(0, start, stop, step);
  const int64_t length = range->length();
  if (length > kMaxRange || length < 0) fail("range: found {} items, expected at most {}", length, kMaxRange);
  return range;
}

void put_pairs(Arena& arena, Dict& dict, const Value& source) {
  if (source.is(Value::Kind::kDict)) {
    for (const auto& [key, value] : source.dict().items) put(arena, dict, key, value);
    return;
  }
  const Advance advance = iterate(arena, source);
  for (Value pair; advance(pair);) {
    const std::vector<Value> items = collect(arena, pair);
    if (items.size() != 2) fail("dict: found {} values in place of a key and a value", items.size());
    put(arena, dict, items[0], items[1]);
  }
}

Dict* make_dict(Call& call) {
  Dict* dict = call.arena.make<Dict>(0);
  const Value source = call.take("", Value());
  if (!source.is(Value::Kind::kMissing)) put_pairs(call.arena, *dict, source);
  for (const auto& [name, value] : call.keywords) put(call.arena, *dict, call.arena.text(name), value);
  call.keywords.clear();
  call.finish();
  return dict;
}

Value dict(Call& call) {
  return make_dict(call);
}

Value name_space(Call& call) {
  auto* result = call.arena.make<Namespace>(0);
  result->attributes = make_dict(call);
  for (const auto& [name, value] : result->attributes->items)
    if (name.is_text() && name.text().bytes.starts_with('_'))
      fail("a namespace has no attribute that begins with an underscore, found {}", name.text().bytes);
  return result;
}

Value cycler(Call& call) {
  if (call.positional.empty()) fail("cycler needs a value");
  auto* result = call.arena.make<Cycler>(call.positional.size() * sizeof(Value));
  result->items = call.positional;
  return result;
}

Value joiner(Call& call) {
  auto* result = call.arena.make<Joiner>(0);
  result->separator = call.take("sep", call.arena.text(", "));
  call.finish();
  return result;
}

Value raise_exception(Call& call) {
  const Value message = call.take("message");
  call.finish();
  fail("the template refuses the conversation: {}", to_str(call.arena, message));
}

// Returns the format with what datetime.strftime() of Python fills in itself. Microseconds stand for %f, and
// nothing for the zone of a time that has none.
std::string python_format(std::string_view format, long microseconds) {
  std::string result;
  for (size_t at = 0; at < format.size(); ++at) {
    const char letter = format[at] == '%' && at + 1 < format.size() ? format[at + 1] : '\0';
    if (letter == 'f') result += fmt::format("{:06}", microseconds);
    if (letter != 'f' && letter != 'z' && letter != 'Z') result += format[at];
    if (letter == '\0') continue;
    ++at;
    if (letter != 'f' && letter != 'z' && letter != 'Z') result += letter;
  }
  return result;
}

Value strftime_now(Call& call) {
  const std::string given = std::string(call.take_text("format"));
  call.finish();
  if (given.find('\0') != given.npos) fail("strftime_now: the format holds a null character");
  std::timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::tm local{};
  localtime_r(&now.tv_sec, &local);
  constexpr size_t kMaxBytes = 4096;
  char text[kMaxBytes + 2];
  // The space tells an empty result from one that does not fit.
  const std::string format = python_format(given, now.tv_nsec / 1000) + " ";
  const size_t size = std::strftime(text, sizeof text, format.c_str(), &local);
  if (size == 0) fail("strftime_now: the result has more than {} bytes", kMaxBytes);
  return call.arena.text(std::string(text, size - 1));
}

Value lorem_ipsum(Call&) {
  fail("unsupported: the function lipsum");
}

}  // namespace

Value find_global(Arena& arena, std::string_view name) {
  static constexpr Method kGlobals[] = {{"range", range},
                                        {"dict", dict},
                                        {"namespace", name_space},
                                        {"cycler", cycler},
                                        {"joiner", joiner},
                                        {"lipsum", lorem_ipsum},
                                        {"raise_exception", raise_exception},
                                        {"strftime_now", strftime_now}};
  const auto* found = std::find_if(std::begin(kGlobals), std::end(kGlobals),
                                   [&](const Method& global) { return global.name == name; });
  if (found == std::end(kGlobals)) return {};
  return arena.make<Function>(64, std::string(name), found->code);
}

}  // namespace mkrt::jinja
