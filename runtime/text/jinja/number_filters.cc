// These filters make numbers; the filter default is here, too.
#include <cmath>

#include "runtime/text/jinja/call.h"
#include "runtime/text/jinja/compare.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/filters.h"
#include "runtime/text/jinja/iterate.h"
#include "runtime/text/jinja/number.h"
#include "runtime/text/jinja/parse_number.h"

namespace mkrt::jinja {
namespace {

Value absolute_value(Call& call) {
  const Value value = call.take("");
  call.finish();
  return absolute(value);
}

Value length(Call& call) {
  const Value value = call.take("");
  call.finish();
  const int64_t count = length_of(value);
  if (count < 0) fail("{} has no length", value.described());
  return Value::integer(count);
}

Value to_integer(Call& call) {
  const Value value = call.take("value");
  const Value otherwise = call.take("default", Value::integer(0));
  const int64_t base = call.take_integer("base", 10);
  call.finish();
  if (value.is_undefined()) fail("{}", value.undefined().message);
  if (value.is_integer()) return Value::integer(value.as_integer());
  if (value.is_text()) {
    const std::string& text = value.text().bytes;
    call.arena.decode(text.size());
    if (const std::optional<int64_t> number = parse_integer(text, base)) return Value::integer(*number);
    const std::optional<double> number = parse_float(text);
    return number && std::isfinite(*number) ? Value::integer(truncate(*number)) : otherwise;
  }
  if (!value.is_number() || std::isnan(value.as_real())) return otherwise;
  return Value::integer(truncate(value.as_real()));
}

Value to_float(Call& call) {
  const Value value = call.take("value");
  const Value otherwise = call.take("default", Value::real(0));
  call.finish();
  if (value.is_undefined()) fail("{}", value.undefined().message);
  if (value.is_number()) return Value::real(value.as_real());
  if (!value.is_text()) return otherwise;
  call.arena.decode(value.text().bytes.size());
  const std::optional<double> number = parse_float(value.text().bytes);
  return number ? Value::real(*number) : otherwise;
}

Value round_value(Call& call) {
  const Value value = call.take("value");
  const int64_t digits = call.take_integer("precision", 0);
  const Value method = call.take("method", call.arena.text("common"));
  call.finish();
  const std::string name = method.is_text() ? method.text().bytes : "";
  if (name == "common") return round_number(value, digits);
  if (name != "ceil" && name != "floor") fail("round: found another method than common, ceil and floor");
  if (!value.is_number()) fail("{} cannot be rounded", value.described());
  const Value unit = of_numbers(Operator::kPower, Value::integer(10), Value::integer(digits));
  const Value scaled = of_numbers(Operator::kMultiply, value, unit);
  if (scaled.is_integer()) return of_numbers(Operator::kDivide, scaled, unit);
  const double number = scaled.as_real();
  if (!std::isfinite(number)) fail("round: the number {} is no integer", number);
  const double whole = name == "ceil" ? std::ceil(number) : std::floor(number);
  // Python divides an integer, which has no negative zero.
  return of_numbers(Operator::kDivide, Value::real(whole + 0.0), unit);
}

Value default_value(Call& call) {
  const Value value = call.take("value");
  const Value otherwise = call.take("default_value", call.arena.text(""));
  const bool for_false = call.take_bool("boolean", false);
  call.finish();
  return value.is_undefined() || (for_false && !is_true(value)) ? otherwise : value;
}

}  // namespace

std::span<const Method> number_filters() {
  static constexpr Method kFilters[] = {
      {"abs", absolute_value}, {"count", length},      {"length", length},   {"int", to_integer},
      {"float", to_float},     {"round", round_value}, {"d", default_value}, {"default", default_value}};
  return kFilters;
}

}  // namespace mkrt::jinja
