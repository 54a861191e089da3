// Which values an expression may take, for all values of symbols and coordinates.
#pragma once

#include <string>
#include <vector>

#include "ir/diag.h"
#include "ir/expr.h"

namespace mkc {

constexpr int64_t kMaxValue = int64_t{1} << 60;  // of an expression and all its parts, either sign

// Symbols lie within their bounds; coordinate i runs over [0, extents[i]), where the extent is an expression
// over symbols and earlier coordinates, and may be more than its coordinate ever needs.
struct Domain {
  std::vector<Bounds> symbols;
  std::vector<Expr> extents;
  std::vector<Bounds> coords;   // of each coordinate, from its extent
  std::vector<Expr> lengths{};  // by symbol: 0 where it is no list; empty: there are no lists
};

// The domain with a coordinate added. Requires a checked extent.
void add_coord(Domain& domain, const Expr& extent);

// Bounds of `e`. Errors: leaves beyond the domain, lists without an index or with one that may be beyond
// their length, a divisor that may be less than 1, values beyond kMaxValue. Functions that ask for a checked
// expression ask that this succeeds.
Result<Bounds> checked_bounds(const Expr& e, const Domain& domain);

// No value of `e` is greater (less). Sound; exact for sums of symbols and coordinates, also where one
// coordinate's extent is a symbol of the sum, and through min and max. Requires checked expressions.
int64_t upper_bound(const Expr& e, const Domain& domain);
int64_t lower_bound(const Expr& e, const Domain& domain);

}  // namespace mkc
