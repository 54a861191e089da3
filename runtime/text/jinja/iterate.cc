#include "runtime/text/jinja/iterate.h"

#include "runtime/text/jinja/fault.h"
#include "runtime/text/utf8.h"

namespace mkrt::jinja {
namespace {

// Returns a function that goes through `count` elements by their index.
template <class At>
Advance by_index(Arena& arena, size_t count, At at) {
  return [&arena, count, at, index = size_t{0}](Value& value) mutable {
    if (index == count) return false;
    arena.step();
    value = at(index++);
    return true;
  };
}

Advance characters(Arena& arena, const Text& text) {
  return [&arena, &text, at = size_t{0}](Value& value) mutable {
    if (at == text.bytes.size()) return false;
    arena.step();
    const size_t size = scan_utf8(std::string_view(text.bytes).substr(at)).size;
    value = arena.text(text.bytes.substr(at, size));
    at += size;
    return true;
  };
}

Advance parts(Arena& arena, const Dict& dict, DictView::Part part) {
  return by_index(arena, dict.items.size(), [&arena, &dict, part](size_t index) {
    const auto& [key, value] = dict.items[index];
    if (part == DictView::Part::kKeys) return key;
    return part == DictView::Part::kValues ? value : arena.tuple({key, value});
  });
}

}  // namespace

Advance iterate(Arena& arena, const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
      return [](Value&) { return false; };
    case ValueKind::kText:
      return characters(arena, value.text());
    case ValueKind::kList:
    case ValueKind::kTuple: {
      const Sequence& sequence = value.sequence();
      return by_index(arena, sequence.items.size(),
                      [&sequence](size_t index) { return sequence.items[index]; });
    }
    case ValueKind::kDict:
      return parts(arena, value.dict(), DictView::Part::kKeys);
    case ValueKind::kDictView:
      return parts(arena, value.view().dict, value.view().part);
    case ValueKind::kRange: {
      const Range& range = value.range();
      return by_index(arena, static_cast<size_t>(range.length()), [&range](size_t index) {
        return Value::integer(range.start + static_cast<int64_t>(index) * range.step);
      });
    }
    case ValueKind::kIterator:
      return [&iterator = value.iterator()](Value& element) { return iterator.advance(element); };
    case ValueKind::kMissing:
    case ValueKind::kNone:
    case ValueKind::kBool:
    case ValueKind::kInt:
    case ValueKind::kFloat:
    case ValueKind::kNamespace:
    case ValueKind::kMacro:
    case ValueKind::kLoop:
    case ValueKind::kFunction:
    case ValueKind::kCycler:
    case ValueKind::kJoiner:
      break;
  }
  fail("{} has no elements to go through", value.described());
}

std::vector<Value> collect(Arena& arena, const Value& value) {
  if (value.is_sequence()) {
    arena.step(value.sequence().items.size());
    return value.sequence().items;
  }
  std::vector<Value> items;
  const Advance advance = iterate(arena, value);
  for (Value item; advance(item);) {
    arena.charge(sizeof(Value));
    items.push_back(item);
  }
  return items;
}

int64_t length_of(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kUndefined:
      return 0;
    case ValueKind::kText:
      return static_cast<int64_t>(value.text().length);
    case ValueKind::kList:
    case ValueKind::kTuple:
      return static_cast<int64_t>(value.sequence().items.size());
    case ValueKind::kDict:
      return static_cast<int64_t>(value.dict().items.size());
    case ValueKind::kDictView:
      return static_cast<int64_t>(value.view().dict.items.size());
    case ValueKind::kRange:
      return value.range().length();
    case ValueKind::kMissing:
    case ValueKind::kNone:
    case ValueKind::kBool:
    case ValueKind::kInt:
    case ValueKind::kFloat:
    case ValueKind::kIterator:
    case ValueKind::kNamespace:
    case ValueKind::kMacro:
    case ValueKind::kLoop:
    case ValueKind::kFunction:
    case ValueKind::kCycler:
    case ValueKind::kJoiner:
      return -1;
  }
  return -1;
}

Value make_iterator(Arena& arena, Advance advance) {
  return arena.make<Iterator>(128, [&arena, advance = std::move(advance)](Value& value) {
    const Level level(arena);
    return advance(value);
  });
}

Value reversed(Arena& arena, const Value& value) {
  if (value.is(ValueKind::kIterator)) fail("an iterator cannot be reversed");
  const Value items = arena.list(collect(arena, value));
  const std::vector<Value>& all = items.sequence().items;
  return make_iterator(
      arena, by_index(arena, all.size(), [&all](size_t index) { return all[all.size() - 1 - index]; }));
}

}  // namespace mkrt::jinja
