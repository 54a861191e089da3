#include "runtime/text/jinja/attributes.h"

#include <algorithm>

#include "runtime/text/jinja/dict.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/loop.h"
#include "runtime/text/jinja/methods.h"
#include "runtime/text/jinja/text.h"

namespace mkrt::jinja {
namespace {

Value bound(Arena& arena, const Value& value, std::span<const Method> methods, std::string_view name) {
  const auto method =
      std::find_if(methods.begin(), methods.end(), [&](const Method& m) { return m.name == name; });
  if (method == methods.end()) return {};
  if (method->code == nullptr) fail("unsupported: the method {} of {}", name, value.described());
  return arena.make<Function>(64, std::string(name), method->code, value);
}

Value text_attribute(Arena& arena, const Value& value, std::string_view name) {
  const Value found = bound(arena, value, text_methods(), name);
  if (!found.is(ValueKind::kMissing)) return found;
  return bound(arena, value, text_search_methods(), name);
}

Value range_attribute(const Range& range, std::string_view name) {
  if (name == "start") return Value::integer(range.start);
  if (name == "stop") return Value::integer(range.stop);
  if (name == "step") return Value::integer(range.step);
  return {};
}

// Faults: Python has the attribute, and it is not supported.
void refuse_attribute(const Value& value, std::string_view name) {
  constexpr std::string_view kNumber[] = {
      "real",     "imag",       "conjugate",        "numerator",  "denominator", "bit_length", "bit_count",
      "to_bytes", "from_bytes", "as_integer_ratio", "is_integer", "hex",         "fromhex"};
  constexpr std::string_view kMacro[] = {"name",          "arguments", "catch_kwargs",
                                         "catch_varargs", "caller",    "explicit_caller"};
  constexpr std::string_view kOther[] = {"mapping", "isdisjoint", "send",  "throw",
                                         "close",   "count",      "index", "fromkeys"};
  const auto refuse = [&](auto& names) {
    if (std::find(std::begin(names), std::end(names), name) != std::end(names))
      fail("unsupported: the attribute {} of {}", name, value.described());
  };
  if (value.is_number()) refuse(kNumber);
  if (value.is(ValueKind::kMacro)) refuse(kMacro);
  if (value.is(ValueKind::kDictView) || value.is(ValueKind::kRange) || value.is(ValueKind::kIterator) ||
      value.is(ValueKind::kFunction))
    refuse(kOther);
}

// Returns an attribute in the sense of Python's getattr, or a missing value.
Value plain_attribute(Arena& arena, const Value& value, const std::string& name) {
  switch (value.kind()) {
    case ValueKind::kText:
      return text_attribute(arena, value, name);
    case ValueKind::kList:
      return bound(arena, value, list_methods(), name);
    case ValueKind::kDict:
      return bound(arena, value, dict_methods(), name);
    case ValueKind::kRange:
      if (const Value found = range_attribute(value.range(), name); !found.is(ValueKind::kMissing))
        return found;
      break;
    case ValueKind::kLoop:
      return loop_attribute(arena, value.loop(), name);
    case ValueKind::kCycler:
      if (name == "current") return value.cycler().items[value.cycler().position];
      return bound(arena, value, cycler_methods(), name);
    case ValueKind::kNamespace: {
      const Value* found = find(arena, *value.name_space().attributes, name);
      return found == nullptr ? Value() : *found;
    }
    case ValueKind::kTuple:
      if (value.sequence().is_group && name == "grouper") return value.sequence().items[0];
      if (value.sequence().is_group && name == "list") return value.sequence().items[1];
      return bound(arena, value, tuple_methods(), name);
    case ValueKind::kJoiner:
      if (name == "sep") return value.joiner().separator;
      break;
    case ValueKind::kMissing:
    case ValueKind::kUndefined:
    case ValueKind::kNone:
    case ValueKind::kBool:
    case ValueKind::kInt:
    case ValueKind::kFloat:
    case ValueKind::kDictView:
    case ValueKind::kIterator:
    case ValueKind::kMacro:
    case ValueKind::kFunction:
      break;
  }
  refuse_attribute(value, name);
  return {};
}

Value absent(Arena& arena, const Value& value, std::string_view what) {
  return arena.undefined(fmt::format("the {} has no {}", value.type(), what));
}

Value forbidden(Arena& arena, const Value& value, std::string_view name) {
  return arena.undefined(fmt::format("the sandbox forbids {} of {}", name, value.described()));
}

bool is_forbidden(const Value& value, std::string_view name) {
  return name.starts_with("__") || is_forbidden_method(value.kind(), name);
}

const Value* element(const std::vector<Value>& items, int64_t index) {
  const auto length = static_cast<int64_t>(items.size());
  if (index < 0) index += length;
  return index >= 0 && index < length ? &items[static_cast<size_t>(index)] : nullptr;
}

// Returns the item in the sense of Python's operator, or a missing value.
Value plain_item(Arena& arena, const Value& value, const Value& key) {
  if (value.is(ValueKind::kDict)) {
    const Value* found = is_hashable(arena, key) ? find(arena, value.dict(), key) : nullptr;
    return found == nullptr ? Value() : *found;
  }
  if (!key.is_integer()) return {};
  const int64_t index = key.as_integer();
  if (value.is_sequence()) {
    const Value* found = element(value.sequence().items, index);
    return found == nullptr ? Value() : *found;
  }
  if (value.is(ValueKind::kRange)) {
    const int64_t length = value.range().length();
    const int64_t at = index < 0 ? index + length : index;
    return at >= 0 && at < length ? Value::integer(value.range().start + at * value.range().step) : Value();
  }
  if (!value.is_text()) return {};
  const auto length = static_cast<int64_t>(value.text().length);
  const int64_t at = index < 0 ? index + length : index;
  if (at < 0 || at >= length) return {};
  return get_slice(arena, value, Value::integer(at), Value::integer(at + 1), Value::none());
}

Value text_slice(Arena& arena, const Text& text, const Slice& slice) {
  const auto start = static_cast<size_t>(slice.start);
  const auto count = static_cast<size_t>(slice.count);
  if (slice.count == 0) return arena.text("", text.is_markup);
  if (text.is_ascii()) {
    if (slice.step == 1) return arena.text(text.bytes.substr(start, count), text.is_markup);
    std::string result;
    for (int64_t i = 0; i < slice.count; ++i)
      result += text.bytes[static_cast<size_t>(slice.start + i * slice.step)];
    return arena.text(std::move(result), text.is_markup);
  }
  arena.read(text.bytes.size());
  if (slice.step == 1) {
    const std::string_view rest = std::string_view(text.bytes).substr(prefix_bytes(text.bytes, start));
    return arena.text(std::string(rest.substr(0, prefix_bytes(rest, count))), text.is_markup);
  }
  const std::u32string all = decode(text.bytes);
  std::u32string result;
  for (int64_t i = 0; i < slice.count; ++i) result += all[static_cast<size_t>(slice.start + i * slice.step)];
  return arena.text(encode(result), text.is_markup);
}

}  // namespace

Value get_attribute(Arena& arena, const Value& value, const std::string& name) {
  if (value.is_undefined()) fail("{}", value.undefined().message);
  if (is_forbidden(value, name)) return forbidden(arena, value, name);
  const Value attribute = plain_attribute(arena, value, name);
  if (!attribute.is(ValueKind::kMissing)) return attribute;
  if (value.is(ValueKind::kDict))
    if (const Value* item = find(arena, value.dict(), name)) return *item;
  return absent(arena, value, fmt::format("attribute {}", name));
}

Value get_item(Arena& arena, const Value& value, const Value& key) {
  if (value.is_undefined()) fail("{}", value.undefined().message);
  const Value item = plain_item(arena, value, key);
  if (!item.is(ValueKind::kMissing)) return item;
  if (key.is_text()) {
    const std::string& name = key.text().bytes;
    if (is_forbidden(value, name)) return forbidden(arena, value, name);
    const Value attribute = plain_attribute(arena, value, name);
    if (!attribute.is(ValueKind::kMissing)) return attribute;
    return absent(arena, value, fmt::format("element {}", name));
  }
  return absent(arena, value, "element of this index");
}

Slice resolve_slice(int64_t length, const Value& start, const Value& stop, const Value& step) {
  const auto bound_of = [&](const Value& bound, int64_t if_none, int64_t low, int64_t high) {
    if (bound.is_none()) return if_none;
    if (!bound.is_integer()) fail("found {} as a bound of a slice, expected an integer", bound.described());
    int64_t index = bound.as_integer();
    if (index < 0) index = index < -length ? low : index + length;
    return std::clamp(index, low, high);
  };
  if (!step.is_none() && !step.is_integer()) fail("found {} as the step of a slice", step.described());
  const int64_t by = step.is_none() ? 1 : std::max(step.as_integer(), -INT64_MAX);
  if (by == 0) fail("the step of a slice is 0");
  const int64_t low = by > 0 ? 0 : -1, high = by > 0 ? length : length - 1;
  const int64_t first = bound_of(start, by > 0 ? low : high, low, high);
  const int64_t limit = bound_of(stop, by > 0 ? high : low, low, high);
  const int64_t distance = by > 0 ? limit - first : first - limit;
  return {first, by, distance <= 0 ? 0 : (distance - 1) / std::abs(by) + 1};
}

Value get_slice(Arena& arena, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.is_undefined()) fail("{}", value.undefined().message);
  if (value.is_text())
    return text_slice(arena, value.text(),
                      resolve_slice(static_cast<int64_t>(value.text().length), start, stop, step));
  if (value.is(ValueKind::kRange)) {
    const Range& range = value.range();
    const Slice slice = resolve_slice(range.length(), start, stop, step);
    const int64_t begin = range.start + slice.start * range.step;
    const int64_t by = slice.step * range.step;
    return arena.make<Range>(0, begin, begin + slice.count * by, by);
  }
  if (!value.is_sequence()) fail("{} has no slices", value.described());
  const std::vector<Value>& items = value.sequence().items;
  const Slice slice = resolve_slice(static_cast<int64_t>(items.size()), start, stop, step);
  std::vector<Value> result;
  arena.step(static_cast<uint64_t>(slice.count));
  for (int64_t i = 0; i < slice.count; ++i)
    result.push_back(items[static_cast<size_t>(slice.start + i * slice.step)]);
  return value.is(ValueKind::kList) ? arena.list(std::move(result)) : arena.tuple(std::move(result));
}

}  // namespace mkrt::jinja
