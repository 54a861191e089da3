#include "runtime/text/jinja/arithmetic.h"

#include <algorithm>

#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/limits.h"
#include "runtime/text/jinja/number.h"
#include "runtime/text/jinja/percent_format.h"

namespace mkrt::jinja {
namespace {

constexpr std::string_view sign_of(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "+";
    case Operator::kSubtract:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    case Operator::kFloorDivide:
      return "//";
    case Operator::kModulo:
      return "%";
    case Operator::kPower:
      return "**";
    default:
      return "?";
  }
}

// Markup escapes text that is added to it, on either side.
Value add_text(Arena& arena, const Text& left, const Text& right) {
  const bool is_markup = left.is_markup || right.is_markup;
  const auto part = [&](const Text& text) {
    return is_markup && !text.is_markup ? escape_html(text.bytes) : text.bytes;
  };
  return arena.text(part(left) + part(right), is_markup);
}

Value add_sequences(Arena& arena, const Value& left, const Value& right) {
  std::vector<Value> items = left.sequence().items;
  const std::vector<Value>& more = right.sequence().items;
  arena.step(items.size() + more.size());
  items.insert(items.end(), more.begin(), more.end());
  return left.is(ValueKind::kList) ? arena.list(std::move(items)) : arena.tuple(std::move(items));
}

Value repeat_text(Arena& arena, const Text& text, int64_t count) {
  if (count <= 0 || text.bytes.empty()) return arena.text("", text.is_markup);
  if (static_cast<uint64_t>(count) > kMaxOutputBytes / text.bytes.size())
    fail("text repeated {} times has more than {} MiB", count, kMaxOutputBytes >> 20);
  std::string result;
  result.reserve(text.bytes.size() * static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) result += text.bytes;
  return arena.text(std::move(result), text.is_markup);
}

Value repeat_sequence(Arena& arena, const Value& value, int64_t count) {
  const std::vector<Value>& items = value.sequence().items;
  const size_t times = count < 0 || items.empty() ? 0 : static_cast<size_t>(count);
  if (times > kMaxMemoryBytes / sizeof(Value) / std::max(items.size(), size_t{1}))
    fail("a list repeated {} times is too long", count);
  arena.charge(times * items.size() * sizeof(Value));
  std::vector<Value> result;
  for (size_t i = 0; i < times; ++i) result.insert(result.end(), items.begin(), items.end());
  return value.is(ValueKind::kList) ? arena.list(std::move(result)) : arena.tuple(std::move(result));
}

Value repeat(Arena& arena, const Value& value, int64_t count) {
  return value.is_text() ? repeat_text(arena, value.text(), count) : repeat_sequence(arena, value, count);
}

bool is_repeatable(const Value& value) {
  return value.is_text() || value.is_sequence();
}

}  // namespace

Value arithmetic(Arena& arena, Operator op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return of_numbers(op, left, right);
  if (op == Operator::kModulo && left.is_text()) return percent_format(arena, left.text(), right);
  if (left.is_undefined() || right.is_undefined())
    fail("{}", (left.is_undefined() ? left : right).undefined().message);
  if (op == Operator::kAdd) {
    if (left.is_text() && right.is_text()) return add_text(arena, left.text(), right.text());
    if (left.is_sequence() && left.kind() == right.kind()) return add_sequences(arena, left, right);
  }
  if (op == Operator::kMultiply) {
    if (is_repeatable(left) && right.is_integer()) return repeat(arena, left, right.as_integer());
    if (left.is_integer() && is_repeatable(right)) return repeat(arena, right, left.as_integer());
  }
  fail("the operator {} does not go with {} and {}", sign_of(op), left.described(), right.described());
}

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '\'':
        result += "&#39;";
        break;
      case '"':
        result += "&#34;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

}  // namespace mkrt::jinja
