// These filters compare elements with each other.
#include <list>

#include "runtime/text/jinja/call.h"
#include "runtime/text/jinja/compare.h"
#include "runtime/text/jinja/dict.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/filters.h"
#include "runtime/text/jinja/iterate.h"
#include "runtime/text/jinja/lazy.h"
#include "runtime/text/jinja/search.h"

namespace mkrt::jinja {
namespace {

struct Keyed {
  Value key;
  Value item;
};

// Sorts by keys. Equal elements keep their order, also in a descending sort. A list's sort stays within its
// bounds even where NaN has no order.
void sort_by_key(Arena& arena, std::list<Keyed>& all, bool descending) {
  all.sort([&](const Keyed& left, const Keyed& right) {
    return descending ? less(arena, right.key, left.key) : less(arena, left.key, right.key);
  });
}

Value key_of(Arena& arena, const Value& item, const Value& path, bool case_sensitive) {
  const Value key = get_path(arena, item, path);
  return case_sensitive ? key : ignore_case(arena, key);
}

Value items_of(Arena& arena, const std::list<Keyed>& all) {
  std::vector<Value> items;
  items.reserve(all.size());
  for (const Keyed& keyed : all) items.push_back(keyed.item);
  return arena.list(std::move(items));
}

// Returns the keys at paths with commas between them.
Value keys_of(Arena& arena, const Value& item, const Value& paths, bool case_sensitive) {
  if (!paths.is_text()) return key_of(arena, item, paths, case_sensitive);
  std::vector<Value> keys;
  for (const std::string_view path : split_at(paths.text().bytes, ",", -1))
    keys.push_back(key_of(arena, item, arena.text(std::string(path)), case_sensitive));
  return arena.list(std::move(keys));
}

Value sort(Call& call) {
  const Value value = call.take("value");
  const bool descending = call.take_bool("reverse", false),
             case_sensitive = call.take_bool("case_sensitive", false);
  const Value attribute = call.take("attribute", Value::none());
  call.finish();
  std::list<Keyed> all;
  for (const Value& item : collect(call.arena, value))
    all.push_back({keys_of(call.arena, item, attribute, case_sensitive), item});
  sort_by_key(call.arena, all, descending);
  return items_of(call.arena, all);
}

Value dict_sort(Call& call) {
  const Value value = call.take("value");
  const bool case_sensitive = call.take_bool("case_sensitive", false);
  const Value by = call.take("by", call.arena.text("key"));
  const bool descending = call.take_bool("reverse", false);
  call.finish();
  const std::string which = by.is_text() ? by.text().bytes : "";
  if (which != "key" && which != "value") fail("dictsort: sorts by key or value only");
  if (!value.is(Value::Kind::kDict)) fail("dictsort: found {}, expected a dict", value.described());
  std::list<Keyed> all;
  for (const auto& [key, item] : value.dict().items)
    all.push_back({key_of(call.arena, which == "key" ? key : item, Value::none(), case_sensitive),
                   call.arena.tuple({key, item})});
  sort_by_key(call.arena, all, descending);
  return items_of(call.arena, all);
}

Value unique(Call& call) {
  const Value value = call.take("value");
  const bool case_sensitive = call.take_bool("case_sensitive", false);
  const Value attribute = call.take("attribute", Value::none());
  call.finish();
  return lazy(call.arena, [&arena = call.arena, value, case_sensitive, attribute]() -> Advance {
    Dict* seen = arena.make<Dict>(0);
    return [&arena, seen, case_sensitive, attribute, advance = iterate(arena, value)](Value& item) {
      while (advance(item)) {
        const Value key = key_of(arena, item, attribute, case_sensitive);
        if (find(arena, *seen, key) != nullptr) continue;
        put(arena, *seen, key, Value::none());
        return true;
      }
      return false;
    };
  });
}

template <bool wants_greatest>
Value extreme(Call& call) {
  const Value value = call.take("value");
  const bool case_sensitive = call.take_bool("case_sensitive", false);
  const Value attribute = call.take("attribute", Value::none());
  call.finish();
  const Advance advance = iterate(call.arena, value);
  Value best;
  if (!advance(best)) return call.arena.undefined("an empty sequence has no extreme item");
  Value best_key = key_of(call.arena, best, attribute, case_sensitive);
  for (Value item; advance(item);) {
    const Value key = key_of(call.arena, item, attribute, case_sensitive);
    const bool is_better = wants_greatest ? less(call.arena, best_key, key) : less(call.arena, key, best_key);
    if (!is_better) continue;
    best = item;
    best_key = key;
  }
  return best;
}

struct Group {
  Value key;
  std::vector<Value> items;
};

Value group_key(Arena& arena, const Value& item, const Value& path, const Value& otherwise) {
  const Value key = get_path(arena, item, path);
  return key.is_undefined() && !otherwise.is_none() ? otherwise : key;
}

Value group_by(Call& call) {
  const Value value = call.take("value");
  const Value attribute = call.take("attribute");
  const Value otherwise = call.take("default", Value::none());
  const bool case_sensitive = call.take_bool("case_sensitive", false);
  call.finish();
  Arena& arena = call.arena;
  std::list<Keyed> all;
  for (const Value& item : collect(arena, value)) {
    const Value key = group_key(arena, item, attribute, otherwise);
    all.push_back({case_sensitive ? key : ignore_case(arena, key), item});
  }
  sort_by_key(arena, all, false);
  std::vector<Group> groups;
  for (const Keyed& keyed : all) {
    if (groups.empty() || !equals(arena, groups.back().key, keyed.key)) groups.push_back({keyed.key, {}});
    groups.back().items.push_back(keyed.item);
  }
  std::vector<Value> pairs;
  for (const Group& group : groups) {
    const Value key = group_key(arena, group.items[0], attribute, otherwise);
    pairs.push_back(
        Value::tuple(arena.make<Sequence>(32, std::vector<Value>{key, arena.list(group.items)}, true)));
  }
  return arena.list(std::move(pairs));
}

}  // namespace

std::span<const Method> sorting_filters() {
  static constexpr Method kFilters[] = {{"sort", sort},         {"dictsort", dict_sort},
                                        {"unique", unique},     {"min", extreme<false>},
                                        {"max", extreme<true>}, {"groupby", group_by}};
  return kFilters;
}

}  // namespace mkrt::jinja
