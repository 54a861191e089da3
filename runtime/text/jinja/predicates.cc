#include "runtime/text/jinja/predicates.h"

#include <algorithm>

#include "runtime/text/jinja/arithmetic.h"
#include "runtime/text/jinja/compare.h"
#include "runtime/text/jinja/dict.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/filters.h"
#include "runtime/text/jinja/iterate.h"
#include "runtime/text/jinja/print.h"
#include "runtime/text/jinja/text.h"

namespace mkrt::jinja {
namespace {

struct NamedPredicate {
  std::string_view name;
  Predicate code;
};

const NamedPredicate* find_named(std::string_view name);

// Makes a test of the value alone out of a function of values.
template <bool (*test)(const Value&)>
bool of_value(Call& call) {
  const Value value = call.take("value");
  call.finish();
  return test(value);
}

template <Operator op>
bool compares(Call& call) {
  const Value left = call.take(""), right = call.take("");
  call.finish();
  return compare(call.arena, op, left, right);
}

bool is_in(Call& call) {
  const Value value = call.take("value"), container = call.take("seq");
  call.finish();
  return contains(call.arena, container, value);
}

bool rest_is(Call& call, const Value& value, const Value& divisor, int64_t wanted) {
  const Value rest = arithmetic(call.arena, Operator::kModulo, value, divisor);
  return equals(call.arena, rest, Value::integer(wanted));
}

template <int64_t wanted>
bool rest_of_two_is(Call& call) {
  const Value value = call.take("value");
  call.finish();
  return rest_is(call, value, Value::integer(2), wanted);
}

bool is_divisible(Call& call) {
  const Value value = call.take("value"), divisor = call.take("num");
  call.finish();
  return rest_is(call, value, divisor, 0);
}

bool is_same(Call& call) {
  const Value value = call.take("value"), other = call.take("other");
  call.finish();
  if (value.kind() != other.kind()) return false;
  if (value.object() != nullptr && value.object() == other.object()) return true;
  if (value.is(ValueKind::kInt) || value.is(ValueKind::kFloat) || value.is_text())
    fail("unsupported: sameas of two values of type {}, which are equal or not", value.type());
  return value.object() == nullptr && is_true(value) == is_true(other);
}

template <bool (*passes)(char32_t)>
bool has_case(Call& call) {
  const std::string text = to_str(call.arena, call.take("value"));
  call.finish();
  call.arena.decode(text.size());
  const std::u32string all = decode(text);
  const bool any = std::any_of(all.begin(), all.end(), passes);
  return any && std::all_of(all.begin(), all.end(), [](char32_t c) { return passes(c) || !is_cased(c); });
}

// Returns the tested name. Faults: the value cannot be a key of a table of names.
Value take_name(Call& call) {
  const Value name = call.take("value");
  call.finish();
  if (!is_hashable(call.arena, name)) fail("{}: found {}, expected a name", call.name, name.described());
  return name;
}

bool is_filter(Call& call) {
  const Value name = take_name(call);
  return name.is_text() && is_filter_name(name.text().bytes);
}

bool is_test(Call& call) {
  const Value name = take_name(call);
  return name.is_text() && find_named(name.text().bytes) != nullptr;
}

template <ValueKind kind>
bool has_kind(const Value& value) {
  return value.is(kind);
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_number(const Value& value) {
  return value.is_number();
}
template <bool wanted>
bool is_boolean(const Value& value) {
  return value.is(ValueKind::kBool) && value.as_bool() == wanted;
}
bool is_escaped(const Value& value) {
  return value.is_text() && value.text().is_markup;
}
bool is_sequence(const Value& value) {
  return length_of(value) >= 0 && !value.is(ValueKind::kDictView);
}
bool is_iterable(const Value& value) {
  return length_of(value) >= 0 || value.is(ValueKind::kIterator) || value.is(ValueKind::kLoop);
}
bool is_callable(const Value& value) {
  return value.is_undefined() || value.is(ValueKind::kMacro) || value.is(ValueKind::kFunction) ||
         value.is(ValueKind::kLoop) || value.is(ValueKind::kJoiner);
}

const NamedPredicate* find_named(std::string_view name) {
  static constexpr NamedPredicate kPredicates[] = {
      {"odd", rest_of_two_is<1>},
      {"even", rest_of_two_is<0>},
      {"divisibleby", is_divisible},
      {"defined", of_value<is_defined>},
      {"undefined", of_value<has_kind<ValueKind::kUndefined>>},
      {"filter", is_filter},
      {"test", is_test},
      {"none", of_value<has_kind<ValueKind::kNone>>},
      {"boolean", of_value<has_kind<ValueKind::kBool>>},
      {"false", of_value<is_boolean<false>>},
      {"true", of_value<is_boolean<true>>},
      {"integer", of_value<has_kind<ValueKind::kInt>>},
      {"float", of_value<has_kind<ValueKind::kFloat>>},
      {"lower", has_case<is_lower>},
      {"upper", has_case<is_upper>},
      {"string", of_value<has_kind<ValueKind::kText>>},
      {"mapping", of_value<has_kind<ValueKind::kDict>>},
      {"number", of_value<is_number>},
      {"sequence", of_value<is_sequence>},
      {"iterable", of_value<is_iterable>},
      {"callable", of_value<is_callable>},
      {"sameas", is_same},
      {"escaped", of_value<is_escaped>},
      {"in", is_in},
      {"==", compares<Operator::kEqual>},
      {"eq", compares<Operator::kEqual>},
      {"equalto", compares<Operator::kEqual>},
      {"!=", compares<Operator::kNotEqual>},
      {"ne", compares<Operator::kNotEqual>},
      {">", compares<Operator::kGreater>},
      {"gt", compares<Operator::kGreater>},
      {"greaterthan", compares<Operator::kGreater>},
      {">=", compares<Operator::kGreaterEqual>},
      {"ge", compares<Operator::kGreaterEqual>},
      {"<", compares<Operator::kLess>},
      {"lt", compares<Operator::kLess>},
      {"lessthan", compares<Operator::kLess>},
      {"<=", compares<Operator::kLessEqual>},
      {"le", compares<Operator::kLessEqual>},
  };
  const auto* found = std::find_if(std::begin(kPredicates), std::end(kPredicates),
                                   [&](const NamedPredicate& predicate) { return predicate.name == name; });
  return found == std::end(kPredicates) ? nullptr : found;
}

}  // namespace

Predicate find_predicate(std::string_view name, uint32_t line) {
  const NamedPredicate* found = find_named(name);
  if (found == nullptr) fail_at(line, "there is no test {}", name);
  return found->code;
}

}  // namespace mkrt::jinja
