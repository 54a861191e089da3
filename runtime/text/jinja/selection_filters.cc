// These filters apply other filters and tests to elements.
#include <utility>

#include "runtime/text/jinja/call.h"
#include "runtime/text/jinja/compare.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/filters.h"
#include "runtime/text/jinja/iterate.h"
#include "runtime/text/jinja/lazy.h"
#include "runtime/text/jinja/predicates.h"

namespace mkrt::jinja {
namespace {

using Mapping = std::function<Value(const Value&)>;

// Inner is a filter or a test with its arguments, to be applied to one element after the other.
struct Inner {
  Arena& arena;
  std::string name;
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  Call with(const Value& item) const {
    Call call(arena, name);
    call.keywords = keywords;
    call.positional.push_back(item);
    call.positional.insert(call.positional.end(), positional.begin(), positional.end());
    return call;
  }
};

// Returns the argument at the position, which names a filter or a test, with those behind it.
Inner take_inner(const Call& call, size_t position) {
  const Value& name = call.positional[position];
  if (!name.is_text()) fail("{}: found {}, expected a name", call.name, name.described());
  const auto rest = call.positional.begin() + static_cast<std::ptrdiff_t>(position) + 1;
  return {call.arena, name.text().bytes, {rest, call.positional.end()}, call.keywords};
}

Mapping attribute_mapping(Call& call) {
  const Value attribute = call.take("attribute");
  const Value otherwise = call.take("default", Value::none());
  call.finish();
  return [&arena = call.arena, attribute, otherwise](const Value& item) {
    if (otherwise.is_none()) return get_path(arena, item, attribute);
    if (attribute.is_text() && attribute.text().bytes.find('.') != std::string::npos)
      fail("unsupported: map with both a default and a path");
    const Value found = get_path(arena, item, attribute);
    return found.is_undefined() ? otherwise : found;
  };
}

Mapping mapping(Call& call) {
  if (call.positional.size() == 1 && !call.keywords.empty()) {
    (void)call.take("value");
    return attribute_mapping(call);
  }
  if (call.positional.size() < 2) fail("map needs the name of a filter");
  return [inner = take_inner(call, 1)](const Value& item) {
    Call one = inner.with(item);
    return find_filter(inner.name, 0)(one);
  };
}

Value map(Call& call) {
  if (call.positional.empty()) fail("map needs a value");
  return lazy(call.arena, [call]() mutable -> Advance {
    const Value value = call.positional[0];
    if (!is_true(value)) return [](Value&) { return false; };
    return [apply = mapping(call), advance = iterate(call.arena, value)](Value& item) {
      if (!advance(item)) return false;
      item = apply(item);
      return true;
    };
  });
}

// Returns the test of a call: that which the argument at the position names, or truth.
std::function<bool(const Value&)> condition(const Call& call, size_t position) {
  if (call.positional.size() <= position) return [](const Value& item) { return is_true(item); };
  return [inner = take_inner(call, position)](const Value& item) {
    Call one = inner.with(item);
    return find_predicate(inner.name, 0)(one);
  };
}

template <bool wanted, bool by_attribute>
Value select(Call& call) {
  if (call.positional.empty()) fail("{} needs a value", call.name);
  return lazy(call.arena, [call]() -> Advance {
    const Value value = call.positional[0];
    if (!is_true(value)) return [](Value&) { return false; };
    if (by_attribute && call.positional.size() < 2) fail("{} needs the name of an attribute", call.name);
    const Value path = by_attribute ? call.positional[1] : Value::none();
    return [&arena = call.arena, path, test = condition(call, by_attribute ? 2 : 1),
            advance = iterate(call.arena, value)](Value& item) {
      while (advance(item))
        if (test(get_path(arena, item, path)) == wanted) return true;
      return false;
    };
  });
}

}  // namespace

std::span<const Method> selection_filters() {
  static constexpr Method kFilters[] = {{"map", map},
                                        {"select", select<true, false>},
                                        {"reject", select<false, false>},
                                        {"selectattr", select<true, true>},
                                        {"rejectattr", select<false, true>}};
  return kFilters;
}

}  // namespace mkrt::jinja
