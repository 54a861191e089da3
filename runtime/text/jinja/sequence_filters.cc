// These filters go through the elements of a value.
#include <algorithm>

#include "runtime/text/jinja/arithmetic.h"
#include "runtime/text/jinja/call.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/filters.h"
#include "runtime/text/jinja/iterate.h"
#include "runtime/text/jinja/lazy.h"

namespace mkrt::jinja {
namespace {

Value first(Call& call) {
  const Value value = call.take("seq");
  call.finish();
  Value item;
  if (iterate(call.arena, value)(item)) return item;
  return call.arena.undefined("an empty sequence has no first item");
}

Value last(Call& call) {
  const Value value = call.take("seq");
  call.finish();
  Value item;
  if (reversed(call.arena, value).iterator().advance(item)) return item;
  return call.arena.undefined("an empty sequence has no last item");
}

Value list(Call& call) {
  const Value value = call.take("value");
  call.finish();
  return call.arena.list(collect(call.arena, value));
}

Value reverse(Call& call) {
  const Value value = call.take("value");
  call.finish();
  if (value.is_text()) return get_slice(call.arena, value, Value::none(), Value::none(), Value::integer(-1));
  if (!value.is(ValueKind::kIterator)) return reversed(call.arena, value);
  std::vector<Value> items = collect(call.arena, value);
  std::reverse(items.begin(), items.end());
  return call.arena.list(std::move(items));
}

Value items(Call& call) {
  const Value value = call.take("value");
  call.finish();
  return lazy(call.arena, [&arena = call.arena, value]() -> Advance {
    if (value.is_undefined()) return iterate(arena, value);
    if (!value.is(ValueKind::kDict)) fail("items: found {}, expected a dict", value.described());
    return iterate(arena, arena.make<DictView>(0, value.dict(), DictView::Part::kItems));
  });
}

Value sum(Call& call) {
  const Value value = call.take("iterable");
  const Value attribute = call.take("attribute", Value::none());
  Value total = call.take("start", Value::integer(0));
  call.finish();
  if (total.is_text()) fail("sum: found text, expected numbers: use join");
  const Advance advance = iterate(call.arena, value);
  for (Value item; advance(item);)
    total = arithmetic(call.arena, Operator::kAdd, total,
                       attribute.is_none() ? item : get_path(call.arena, item, attribute));
  return total;
}

// Returns lists of `size` elements each. The last one is filled up unless the fill is none.
Advance batches(Arena& arena, const Value& value, int64_t size, const Value& fill) {
  const std::vector<Value> all = collect(arena, value);
  std::vector<Value> lists, one;
  for (const Value& item : all) {
    if (static_cast<int64_t>(one.size()) == size) lists.push_back(arena.list(std::exchange(one, {})));
    one.push_back(item);
  }
  if (!one.empty()) {
    const int64_t missing =
        fill.is_none() ? 0 : std::max<int64_t>(size - static_cast<int64_t>(one.size()), 0);
    if (missing > 0)
      arena.charge(static_cast<size_t>(missing) > SIZE_MAX / sizeof(Value)
                       ? SIZE_MAX
                       : static_cast<size_t>(missing) * sizeof(Value));
    one.insert(one.end(), static_cast<size_t>(missing), fill);
    lists.push_back(arena.list(std::move(one)));
  }
  return iterate(arena, arena.list(std::move(lists)));
}

Value batch(Call& call) {
  const Value value = call.take("value");
  const int64_t size = call.take_integer("linecount");
  const Value fill = call.take("fill_with", Value::none());
  call.finish();
  return lazy(call.arena,
              [&arena = call.arena, value, size, fill] { return batches(arena, value, size, fill); });
}

// Returns `count` lists of nearly equal length. Shorter ones get the fill unless it is none.
Advance slices(Arena& arena, const Value& value, int64_t count, const Value& fill) {
  const std::vector<Value> all = collect(arena, value);
  if (count == 0) fail("slice: found 0 slices, expected at least one");
  const auto length = static_cast<int64_t>(all.size());
  std::vector<Value> lists;
  arena.step(static_cast<uint64_t>(std::max<int64_t>(count, 0)));
  for (int64_t i = 0, begin = 0; i < count; ++i) {
    const bool is_longer = i < length % count;
    const int64_t end = begin + length / count + (is_longer ? 1 : 0);
    std::vector<Value> one(all.begin() + begin, all.begin() + end);
    if (!is_longer && !fill.is_none()) one.push_back(fill);
    lists.push_back(arena.list(std::move(one)));
    begin = end;
  }
  return iterate(arena, arena.list(std::move(lists)));
}

Value slice(Call& call) {
  const Value value = call.take("value");
  const int64_t count = call.take_integer("slices");
  const Value fill = call.take("fill_with", Value::none());
  call.finish();
  return lazy(call.arena,
              [&arena = call.arena, value, count, fill] { return slices(arena, value, count, fill); });
}

}  // namespace

std::span<const Method> sequence_filters() {
  static constexpr Method kFilters[] = {{"first", first},     {"last", last},   {"list", list},
                                        {"reverse", reverse}, {"items", items}, {"batch", batch},
                                        {"slice", slice},     {"sum", sum}};
  return kFilters;
}

}  // namespace mkrt::jinja
