#include "ir/expr.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/unit/ir/random_expr.h"

namespace mkc {
namespace {

const std::vector<std::string> kSymbols = {"T", "kv_len"};
const std::vector<std::string> kCoords = {"j"};

// Returns floor(a / b), found by search.
int64_t floor_by_search(int64_t a, int64_t b) {
  int64_t q = 0;
  while (q * b > a) --q;
  while ((q + 1) * b <= a) ++q;
  return q;
}

TEST_CASE("constants fold and neutral elements vanish") {
  const Expr t = symbol(SymbolId{0});
  CHECK((Expr(3) + 4).is_const(7));
  CHECK((t + 0) == t);
  CHECK((1 * t) == t);
  CHECK((t * 0).is_const(0));
  CHECK(floor_div(t, 1) == t);
  CHECK(min(t, t) == t);
}

TEST_CASE("text has only the parentheses it needs") {
  const Expr t = symbol(SymbolId{0}), n = symbol(SymbolId{1}), j = coord(0);
  CHECK(to_string(16 * j + 8, kSymbols, kCoords) == "16*j + 8");
  CHECK(to_string((t + 1) * 2, kSymbols) == "(T + 1)*2");
  CHECK(to_string(t - (n - 1), kSymbols) == "T - (kv_len - 1)");
  CHECK(to_string(ceil_div(n, 256), kSymbols) == "kv_len ceildiv 256");
  CHECK(to_string(min(t, mod(n, 2)), kSymbols) == "min(T, kv_len mod 2)");
}

TEST_CASE("divisions round as documented") {
  const Expr t = symbol(SymbolId{0});
  for (int64_t value = -20; value <= 20; ++value)
    for (int64_t divisor = 1; divisor <= 7; ++divisor) {
      const int64_t symbols[] = {value};
      const int64_t q = floor_by_search(value, divisor);
      CHECK(evaluate(floor_div(t, divisor), symbols) == q);
      CHECK(evaluate(mod(t, divisor), symbols) == value - q * divisor);
      CHECK(evaluate(ceil_div(t, divisor), symbols) == (q * divisor == value ? q : q + 1));
    }
}

Expr random_expr(std::mt19937& rng, int depth) {
  if (depth == 0 || rng() % 4 == 0) {
    if (rng() % 2) return symbol(SymbolId{static_cast<uint32_t>(rng() % 2)});
    return static_cast<int64_t>(rng() % 9) - 4;
  }
  const Expr a = random_expr(rng, depth - 1), b = random_expr(rng, depth - 1);
  const int64_t divisor = static_cast<int64_t>(rng() % 5) + 1;
  return test::random_operation(rng, a, b, b, divisor);
}

TEST_CASE("bounds enclose every value of random expressions") {
  std::mt19937 rng(1);
  const Bounds ranges[] = {{1, 5}, {-3, 4}};
  for (int round = 0; round < 500; ++round) {
    const Expr e = random_expr(rng, 4);
    const Bounds enclosure = bounds(e, ranges);
    for (int64_t a = 1; a <= 5; ++a)
      for (int64_t b = -3; b <= 4; ++b) {
        const int64_t symbols[] = {a, b};
        const int64_t value = evaluate(e, symbols);
        CHECK(enclosure.lo <= value);
        CHECK(value <= enclosure.hi);
      }
  }
}

TEST_CASE("substitution replaces coordinates before evaluation") {
  const Expr j = coord(0);
  const Expr shifted[] = {symbol(SymbolId{0}) + 2};
  const int64_t symbols[] = {5};
  CHECK(evaluate(substitute(16 * j + 3, shifted), symbols) == 16 * 7 + 3);
}

}  // namespace
}  // namespace mkc
