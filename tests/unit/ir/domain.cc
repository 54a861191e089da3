#include "ir/domain.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/unit/ir/random_expr.h"

namespace mkc {
namespace {

const Expr kT = symbol(SymbolId{0});
const Expr kLen = symbol(SymbolId{1});

// Returns a domain with T in [1, 5] and kv_len in [1, 20]. The coordinates run over T, a constant, and blocks
// of kv_len.
Domain small_domain() {
  Domain domain{{{1, 5}, {1, 20}}, {}, {}};
  for (const Expr& extent : {kT, Expr(3), ceil_div(kLen, 4)}) add_coord(domain, extent);
  return domain;
}

// Returns the smallest and the largest value over all points of the domain.
Bounds by_search(const Expr& e, const Domain& domain) {
  Bounds found{INT64_MAX, INT64_MIN};
  for (int64_t t = 1; t <= 5; ++t)
    for (int64_t len = 1; len <= 20; ++len) {
      const std::vector<int64_t> symbols = {t, len};
      std::vector<int64_t> ends;
      for (const Expr& extent : domain.extents) ends.push_back(evaluate(extent, symbols));
      for (int64_t a = 0; a < ends[0]; ++a)
        for (int64_t b = 0; b < ends[1]; ++b)
          for (int64_t c = 0; c < ends[2]; ++c) {
            const int64_t value = evaluate(e, symbols, std::vector<int64_t>{a, b, c});
            found = {std::min(found.lo, value), std::max(found.hi, value)};
          }
    }
  return found;
}

Expr random_expr(std::mt19937& random, int depth) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  if (depth == 0 || pick(4) == 0) {
    const Expr leaves[] = {kT, kLen, coord(0), coord(1), coord(2), pick(20) - 8};
    return leaves[pick(6)];
  }
  const Expr a = random_expr(random, depth - 1), b = random_expr(random, depth - 1);
  const int64_t factor = pick(9) - 4, divisor = 1 + pick(5);
  return test::random_operation(random, a, b, factor, divisor);
}

TEST_CASE("no value of a random expression lies outside its bounds") {
  const Domain domain = small_domain();
  std::mt19937 random(7);
  int exact = 0;
  for (int i = 0; i < 400; ++i) {
    const Expr e = random_expr(random, 4);
    REQUIRE(checked_bounds(e, domain).ok());
    const Bounds values = by_search(e, domain);
    const Bounds found = {lower_bound(e, domain), upper_bound(e, domain)};
    CHECK(found.lo <= values.lo);
    CHECK(found.hi >= values.hi);
    exact += found == values ? 1 : 0;
  }
  CHECK(exact > 200);
}

TEST_CASE("bounds see that a coordinate stays below its symbol, and partial strips within their dim") {
  const Domain domain = small_domain();
  CHECK(upper_bound(coord(0) + 1 - kT, domain) == 0);
  CHECK(upper_bound(4 * coord(1) + min(4, 11 - 4 * coord(1)) - 11, domain) == 0);
  const Expr begin = 4 * coord(2), end = min(begin + 4, kLen - kT);
  CHECK(upper_bound(begin + (end - begin), domain) == 19);
  CHECK(lower_bound(max(begin, kLen - kT), domain) == 0);
}

TEST_CASE("expressions that cannot be evaluated everywhere are refused with the reason") {
  const Domain domain = small_domain();
  const auto fault = [&](const Expr& e) {
    const Result<Bounds> checked = checked_bounds(e, domain);
    return checked.ok() ? "" : checked.error().message;
  };
  CHECK(fault(floor_div(kLen, kT)).empty());
  CHECK(fault(floor_div(kLen, kT - 1)) == "the divisor may be 0, expected at least 1");
  CHECK(fault(symbol(SymbolId{2})) == "symbol #2 does not exist here");
  CHECK(fault(coord(3)) == "coordinate $3 does not exist here");
  CHECK(fault(kMaxValue * kT) == "a product may exceed 2^60");
  Expr bad;
  bad.nodes = {{ExprKind::kConst, 1}, {ExprKind::kAdd, 0}};
  CHECK(fault(bad) == "an operator lacks an operand");
  bad.nodes = {{ExprKind::kConst, 1}, {ExprKind::kConst, 1}};
  CHECK(fault(bad) == "operands without an operator");
  bad.nodes = {{ExprKind::kCoord, -1}};
  CHECK(fault(bad) == "coordinate $-1 does not exist here");
}

}  // namespace
}  // namespace mkc
