// A domain bounds the values that an expression takes over all values of symbols and coordinates.
#pragma once

#include <vector>

#include "ir/diag.h"
#include "ir/expr.h"

namespace mkc {

// The largest absolute value that an expression and all its parts may take.
constexpr int64_t kMaxValue = int64_t{1} << 60;
// The largest absolute value where the device computes the expression and its parts, in 32 bits.
constexpr int64_t kMaxDeviceValue = INT32_MAX;

// Symbols lie within their bounds. Coordinate i runs over [0, extents[i]). An extent is an expression over
// symbols and earlier coordinates. An extent may be more than its coordinate ever needs.
struct Domain {
  std::vector<Bounds> symbols;
  std::vector<Expr> extents;
  std::vector<Bounds> coords;   // bounds of each coordinate, from its extent
  std::vector<Expr> lengths{};  // by symbol: 0 where it is no list; empty: there are no lists
};

// Adds a coordinate to the domain. Requires a checked extent.
void add_coord(Domain& domain, const Expr& extent);

// Returns bounds of `e`. Errors: leaves beyond the domain; lists without an index; an index that may be
// beyond its list's length; a divisor that may be less than 1; values beyond kMaxValue or `limit`. Functions
// that require a checked expression require that this call succeeds.
Result<Bounds> checked_bounds(const Expr& e, const Domain& domain, int64_t limit = kMaxValue);

// upper_bound returns a value that no value of `e` exceeds, lower_bound one that no value of `e` is below.
// The bounds are sound. The bounds are exact for sums of symbols and coordinates, even where a coordinate's
// extent is a symbol of the sum. The bounds are also exact through min and max. Requires checked expressions.
int64_t upper_bound(const Expr& e, const Domain& domain);
int64_t lower_bound(const Expr& e, const Domain& domain);

}  // namespace mkc
