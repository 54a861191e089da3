// Lists, tuples, dicts and cyclers have these methods.
#include <algorithm>

#include "runtime/text/jinja/call.h"
#include "runtime/text/jinja/compare.h"
#include "runtime/text/jinja/dict.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/methods.h"

namespace mkrt::jinja {
namespace {

Value count(Call& call) {
  const Value item = call.take("");
  call.finish();
  const std::vector<Value>& items = call.receiver.sequence().items;
  return Value::integer(std::count_if(items.begin(), items.end(),
                                      [&](const Value& other) { return equals(call.arena, other, item); }));
}

Value index(Call& call) {
  const Value item = call.take("");
  const std::vector<Value>& items = call.receiver.sequence().items;
  const auto length = static_cast<int64_t>(items.size());
  const Value start = call.take("", Value::integer(0)), stop = call.take("", Value::integer(length));
  call.finish();
  const Slice slice = resolve_slice(length, start, stop, Value::none());
  for (int64_t i = slice.start; i < slice.start + slice.count; ++i)
    if (equals(call.arena, items[static_cast<size_t>(i)], item)) return Value::integer(i);
  fail("the {} has no such item", call.receiver.type());
}

Value copy(Call& call) {
  call.finish();
  return call.receiver;
}

Value get(Call& call) {
  const Value key = call.take("");
  const Value otherwise = call.take("", Value::none());
  call.finish();
  const Value* found = find(call.arena, call.receiver.dict(), key);
  return found == nullptr ? otherwise : *found;
}

template <DictView::Part part>
Value view(Call& call) {
  call.finish();
  return call.arena.make<DictView>(0, call.receiver.dict(), part);
}

Value next(Call& call) {
  call.finish();
  Cycler& cycler = call.receiver.cycler();
  const Value value = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return value;
}

Value reset(Call& call) {
  call.finish();
  call.receiver.cycler().position = 0;
  return Value::none();
}

}  // namespace

std::span<const Method> list_methods() {
  static constexpr Method kMethods[] = {{"count", count}, {"index", index}, {"copy", copy}};
  return kMethods;
}

std::span<const Method> tuple_methods() {
  static constexpr Method kMethods[] = {{"count", count}, {"index", index}};
  return kMethods;
}

std::span<const Method> dict_methods() {
  using Part = DictView::Part;
  static constexpr Method kMethods[] = {{"get", get},
                                        {"items", view<Part::kItems>},
                                        {"keys", view<Part::kKeys>},
                                        {"values", view<Part::kValues>},
                                        {"copy", copy},
                                        {"fromkeys", nullptr}};
  return kMethods;
}

std::span<const Method> cycler_methods() {
  static constexpr Method kMethods[] = {
      {"next", next}, {"reset", reset}, {"items", nullptr}, {"pos", nullptr}};
  return kMethods;
}

bool is_forbidden_method(Value::Kind kind, std::string_view name) {
  constexpr std::string_view kList[] = {"append", "clear", "pop",    "reverse",
                                        "insert", "sort",  "extend", "remove"};
  constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  const auto holds = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  return (kind == ValueKind::kList && holds(kList)) || (kind == ValueKind::kDict && holds(kDict));
}

}  // namespace mkrt::jinja
