// This header makes random expressions for the tests of ir/.
#pragma once

#include <random>

#include "ir/expr.h"

namespace mkc::test {

// Returns one of eight operations, chosen at random: a + b, a * factor, a / divisor and so on.
inline Expr random_operation(std::mt19937& random, const Expr& a, const Expr& b, const Expr& factor,
                             int64_t divisor) {
  switch (random() % 8) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * factor;
    case 3:
      return min(a, b);
    case 4:
      return max(a, b);
    case 5:
      return floor_div(a, divisor);
    case 6:
      return ceil_div(a, divisor);
    default:
      return mod(a, divisor);
  }
}

}  // namespace mkc::test
