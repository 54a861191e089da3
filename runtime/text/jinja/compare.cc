#include "runtime/text/jinja/compare.h"

#include <algorithm>
#include <cmath>
#include <compare>

#include "runtime/text/jinja/dict.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/iterate.h"
#include "runtime/text/jinja/search.h"

namespace mkrt::jinja {
namespace {

// Returns the order of two numbers, exactly: doubles and 64-bit integers both fit into a long double's
// mantissa.
std::partial_ordering order(const Value& left, const Value& right) {
  static_assert(std::numeric_limits<long double>::digits >= 64);
  const auto wide = [](const Value& v) {
    return v.is_integer() ? static_cast<long double>(v.as_integer()) : static_cast<long double>(v.as_real());
  };
  return wide(left) <=> wide(right);
}

bool equal_items(Arena& arena, const std::vector<Value>& left, const std::vector<Value>& right) {
  return std::equal(
      left.begin(), left.end(), right.begin(), right.end(), [&](const Value& a, const Value& b) {
        const bool same =
            a.object() != nullptr && a.object() == b.object();  // Python compares identity first
        return same || equals(arena, a, b);
      });
}

bool equal_dicts(Arena& arena, const Dict& left, const Dict& right) {
  return left.items.size() == right.items.size() &&
         std::all_of(left.items.begin(), left.items.end(), [&](const auto& item) {
           const Value* other = find(arena, right, item.first);
           return other != nullptr && equals(arena, item.second, *other);
         });
}

bool equal_ranges(const Range& left, const Range& right) {
  const int64_t length = left.length();
  if (length != right.length()) return false;
  return length == 0 || (left.start == right.start && (length == 1 || left.step == right.step));
}

// Views of keys and of items are sets. A view of values equals itself only.
bool equal_views(Arena& arena, const Value& left, const Value& right) {
  using Part = DictView::Part;
  if (left.view().part == Part::kValues || right.view().part == Part::kValues)
    return left.object() == right.object();
  if (left.view().dict.items.size() != right.view().dict.items.size()) return false;
  const Advance advance = iterate(arena, left);
  for (Value item; advance(item);)
    if (!contains(arena, right, item)) return false;
  return true;
}

bool less_items(Arena& arena, const std::vector<Value>& left, const std::vector<Value>& right) {
  for (size_t i = 0; i < left.size() && i < right.size(); ++i)
    if (!equals(arena, left[i], right[i])) return less(arena, left[i], right[i]);
  return left.size() < right.size();
}

bool range_contains(const Range& range, const Value& item) {
  if (!item.is_number()) return false;
  const double real = item.as_real();
  if (!item.is_integer() && (real != std::floor(real) || std::abs(real) >= 0x1p62)) return false;
  const int64_t number = item.is_integer() ? item.as_integer() : static_cast<int64_t>(real);
  if (range.length() == 0) return false;
  const int64_t last = range.start + (range.length() - 1) * range.step;
  if (number < std::min(range.start, last) || number > std::max(range.start, last)) return false;
  return (number - range.start) % range.step == 0;
}

bool view_contains(Arena& arena, const DictView& view, const Value& item) {
  using Part = DictView::Part;
  if (view.part == Part::kKeys) return find(arena, view.dict, item) != nullptr;
  if (view.part == Part::kItems) {
    if (!item.is(ValueKind::kTuple) || item.sequence().items.size() != 2) return false;
    const Value* value = find(arena, view.dict, item.sequence().items[0]);
    return value != nullptr && equals(arena, *value, item.sequence().items[1]);
  }
  return std::any_of(view.dict.items.begin(), view.dict.items.end(),
                     [&](const auto& entry) { return equals(arena, entry.second, item); });
}

bool text_contains(Arena& arena, const Value& text, const Value& item) {
  if (!item.is_text()) fail("found {} to look for in text, expected text", item.described());
  arena.read(text.text().bytes.size());
  return find_first(text.text().bytes, item.text().bytes) != std::string_view::npos;
}

}  // namespace

bool is_true(const Value& value) {
  switch (value.kind()) {
    case ValueKind::kMissing:
    case ValueKind::kUndefined:
    case ValueKind::kNone:
      return false;
    case ValueKind::kBool:
      return value.as_bool();
    case ValueKind::kInt:
      return value.as_integer() != 0;
    case ValueKind::kFloat:
      return value.as_real() != 0;
    case ValueKind::kText:
      return !value.text().bytes.empty();
    case ValueKind::kList:
    case ValueKind::kTuple:
      return !value.sequence().items.empty();
    case ValueKind::kDict:
      return !value.dict().items.empty();
    case ValueKind::kDictView:
      return !value.view().dict.items.empty();
    case ValueKind::kRange:
      return value.range().length() > 0;
    case ValueKind::kLoop:  // it has a length, and its body runs
    case ValueKind::kIterator:
    case ValueKind::kNamespace:
    case ValueKind::kMacro:
    case ValueKind::kFunction:
    case ValueKind::kCycler:
    case ValueKind::kJoiner:
      return true;
  }
  return false;
}

bool equals(Arena& arena, const Value& left, const Value& right) {
  const Level level(arena);
  if (left.is_number() && right.is_number()) return order(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case ValueKind::kMissing:
    case ValueKind::kNone:
    case ValueKind::kUndefined:
    case ValueKind::kBool:
    case ValueKind::kInt:
    case ValueKind::kFloat:
      return true;
    case ValueKind::kText:
      arena.read(left.text().bytes.size());
      return left.text().bytes == right.text().bytes;
    case ValueKind::kList:
    case ValueKind::kTuple:
      return equal_items(arena, left.sequence().items, right.sequence().items);
    case ValueKind::kDict:
      return equal_dicts(arena, left.dict(), right.dict());
    case ValueKind::kDictView:
      return equal_views(arena, left, right);
    case ValueKind::kRange:
      return equal_ranges(left.range(), right.range());
    case ValueKind::kFunction:
      if (left.function().receiver.is(ValueKind::kMissing)) return left.object() == right.object();
      return left.function().name == right.function().name &&
             left.function().receiver.object() == right.function().receiver.object();
    case ValueKind::kLoop:
    case ValueKind::kIterator:
    case ValueKind::kNamespace:
    case ValueKind::kMacro:
    case ValueKind::kCycler:
    case ValueKind::kJoiner:
      return left.object() == right.object();
  }
  return false;
}

bool less(Arena& arena, const Value& left, const Value& right) {
  const Level level(arena);
  if (left.is_undefined() || right.is_undefined())
    fail("{}", (left.is_undefined() ? left : right).undefined().message);
  if (left.is_number() && right.is_number()) return order(left, right) < 0;
  if (left.is_text() && right.is_text()) {
    arena.read(left.text().bytes.size());
    return left.text().bytes < right.text().bytes;  // UTF-8 keeps the order of code points
  }
  if (left.kind() == right.kind() && left.is_sequence())
    return less_items(arena, left.sequence().items, right.sequence().items);
  fail("there is no order between {} and {}", left.described(), right.described());
}

bool contains(Arena& arena, const Value& container, const Value& item) {
  const Level level(arena);
  if (container.is_text()) return text_contains(arena, container, item);
  if (container.is(ValueKind::kDict)) return find(arena, container.dict(), item) != nullptr;
  if (container.is(ValueKind::kDictView)) return view_contains(arena, container.view(), item);
  if (container.is(ValueKind::kRange)) return range_contains(container.range(), item);
  const Advance advance = iterate(arena, container);
  for (Value element; advance(element);)
    if (equals(arena, element, item)) return true;
  return false;
}

bool compare(Arena& arena, Operator op, const Value& left, const Value& right) {
  switch (op) {
    case Operator::kEqual:
      return equals(arena, left, right);
    case Operator::kNotEqual:
      return !equals(arena, left, right);
    case Operator::kLess:
      return less(arena, left, right);
    case Operator::kGreater:
      return less(arena, right, left);  // NOLINT(readability-suspicious-call-argument): a > b is b < a
    case Operator::kLessEqual:
      return less(arena, left, right) || equals(arena, left, right);
    case Operator::kGreaterEqual:
      // NOLINTNEXTLINE(readability-suspicious-call-argument): a > b is b < a
      return less(arena, right, left) || equals(arena, left, right);
    case Operator::kIn:
      return contains(arena, right, left);
    case Operator::kNotIn:
      return !contains(arena, right, left);
    case Operator::kAdd:
    case Operator::kSubtract:
    case Operator::kMultiply:
    case Operator::kDivide:
    case Operator::kFloorDivide:
    case Operator::kModulo:
    case Operator::kPower:
      return false;
  }
  return false;
}

}  // namespace mkrt::jinja
