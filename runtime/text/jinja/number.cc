#include "runtime/text/jinja/number.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "runtime/text/jinja/fault.h"

namespace mkrt::jinja {
namespace {

constexpr const char* kTooLarge = "the result has more than 64 bits";
constexpr const char* kDivision = "division by zero";

int64_t power_of(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail("{}", kTooLarge);
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) {
      fail("{}", kTooLarge);
    }
  }
  return result;
}

int64_t floor_divide(int64_t left, int64_t right) {
  if (right == 0) fail("{}", kDivision);
  if (right == -1 && left == INT64_MIN) fail("{}", kTooLarge);
  const int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

int64_t modulo(int64_t left, int64_t right) {
  if (right == 0) fail("{}", kDivision);
  if (right == -1) return 0;
  const int64_t rest = left % right;
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

// Returns the remainder with the sign of the divisor.
double modulo(double left, double right) {
  if (right == 0) fail("{}", kDivision);
  double rest = std::fmod(left, right);
  if (rest != 0 && (rest < 0) != (right < 0)) rest += right;
  return rest == 0 ? std::copysign(0.0, right) : rest;
}

double floor_divide(double left, double right) {
  if (right == 0) fail("{}", kDivision);
  const double rest = std::fmod(left, right);
  double quotient = (left - rest) / right;
  if (rest != 0 && (rest < 0) != (right < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

double power_of(double base, double exponent) {
  if (base == 0 && exponent < 0) fail("zero to a negative power");
  if (base < 0 && std::isfinite(exponent) && exponent != std::floor(exponent))
    fail("a fractional power of a negative number is complex");
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent))
    fail("the result is beyond 64-bit floats");
  return result;
}

Value of_integers(Operator op, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case Operator::kAdd:
      overflows = __builtin_add_overflow(left, right, &result);
      break;
    case Operator::kSubtract:
      overflows = __builtin_sub_overflow(left, right, &result);
      break;
    case Operator::kMultiply:
      overflows = __builtin_mul_overflow(left, right, &result);
      break;
    case Operator::kFloorDivide:
      result = floor_divide(left, right);
      break;
    case Operator::kModulo:
      result = modulo(left, right);
      break;
    case Operator::kDivide:
      if (right == 0) fail("{}", kDivision);
      return Value::real(
          static_cast<double>(static_cast<long double>(left) / static_cast<long double>(right)));
    case Operator::kPower:
      if (right < 0) return Value::real(power_of(static_cast<double>(left), static_cast<double>(right)));
      if (left >= -1 && left <= 1)
        return Value::integer(right == 0 || (left == -1 && right % 2 == 0) ? 1 : left);
      result = power_of(left, right);
      break;
    default:
      fail("the operator does not compute");
  }
  if (overflows) fail("{}", kTooLarge);
  return Value::integer(result);
}

Value of_floats(Operator op, double left, double right) {
  switch (op) {
    case Operator::kAdd:
      return Value::real(left + right);
    case Operator::kSubtract:
      return Value::real(left - right);
    case Operator::kMultiply:
      return Value::real(left * right);
    case Operator::kFloorDivide:
      return Value::real(floor_divide(left, right));
    case Operator::kModulo:
      return Value::real(modulo(left, right));
    case Operator::kPower:
      return Value::real(power_of(left, right));
    case Operator::kDivide:
      if (right == 0) fail("{}", kDivision);
      return Value::real(left / right);
    default:
      fail("the operator does not compute");
  }
}

Value round_integer(int64_t number, int64_t digits) {
  constexpr int64_t kHalf = 5'000'000'000'000'000'000;  // of the one power of ten that matters beyond 64 bits
  if (digits >= 0) return Value::integer(number);
  if (digits < -18) {
    if (digits == -19 && (number > kHalf || number < -kHalf)) fail("{}", kTooLarge);
    return Value::integer(0);
  }
  const int64_t unit = power_of(10, -digits);
  const int64_t rest = modulo(number, unit);
  const bool is_odd = modulo(floor_divide(number, unit), 2) == 1;
  const bool goes_up = rest > unit - rest || (rest == unit - rest && is_odd);
  return goes_up ? of_integers(Operator::kAdd, number, unit - rest)
                 : of_integers(Operator::kSubtract, number, rest);
}

}  // namespace

Value of_numbers(Operator op, const Value& left, const Value& right) {
  if (left.is_integer() && right.is_integer()) return of_integers(op, left.as_integer(), right.as_integer());
  return of_floats(op, left.as_real(), right.as_real());
}

Value negative(const Value& value) {
  if (value.is(Value::Kind::kFloat)) return Value::real(-value.as_real());
  if (value.is_integer()) return of_integers(Operator::kSubtract, 0, value.as_integer());
  if (value.is_undefined()) fail("{}", value.undefined().message);
  fail("{} has no negative", value.described());
}

Value positive(const Value& value) {
  if (value.is(Value::Kind::kFloat)) return value;
  if (value.is_integer()) return Value::integer(value.as_integer());
  if (value.is_undefined()) fail("{}", value.undefined().message);
  fail("{} has no sign", value.described());
}

Value absolute(const Value& value) {
  if (value.is(Value::Kind::kFloat)) return Value::real(std::abs(value.as_real()));
  if (!value.is_integer()) fail("{} has no absolute value", value.described());
  return value.as_integer() < 0 ? negative(value) : Value::integer(value.as_integer());
}

int64_t truncate(double number) {
  if (!std::isfinite(number)) fail("the number {} is no integer", number);
  if (number >= 0x1p63 || number < -0x1p63) fail("{}", kTooLarge);
  return static_cast<int64_t>(number);
}

Value round_number(const Value& value, int64_t digits) {
  if (value.is_integer()) return round_integer(value.as_integer(), digits);
  if (!value.is(Value::Kind::kFloat)) fail("{} cannot be rounded", value.described());
  if (!std::isfinite(value.as_real()) || digits > 300) return value;
  if (digits < 0) fail("unsupported: a float rounded to {} digits", digits);
  char text[700];  // up to 309 digits before the point
  std::snprintf(text, sizeof text, "%.*f", static_cast<int>(digits), value.as_real());
  return Value::real(std::strtod(text, nullptr));
}

}  // namespace mkrt::jinja
