#include "ir/form.h"

#include <doctest/doctest.h>

#include <random>

#include "tests/unit/ir/random_expr.h"

namespace mkc {
namespace {

const Expr kT = symbol(SymbolId{0}), kN = symbol(SymbolId{1}), kJ = coord(0);

bool equal(const Expr& a, const Expr& b) {
  Forms forms;
  return forms.equal(a, b);
}

TEST_CASE("sums and products in any order have one form") {
  CHECK(equal(2 * (kT + 3) - kT, kT + 6));
  CHECK(equal((kT + 1) * (kT - 1), kT * kT - 1));
  CHECK(equal(kT - kT, 0));
  CHECK_FALSE(equal(kT, kN));
  CHECK_FALSE(equal(kT, kJ));
}

TEST_CASE("multiples of a constant divisor leave a division") {
  CHECK(equal(floor_div(16 * kT + 5, 8), 2 * kT));
  CHECK(equal(floor_div(16 * kT + kN + 9, 8), 2 * kT + 1 + floor_div(kN + 1, 8)));
  CHECK_FALSE(equal(ceil_div(kT, 8), floor_div(kT + 7, 8)));  // forms do not show this equality
  CHECK(equal(mod(kT, 8) + 8 * floor_div(kT, 8), kT));
}

TEST_CASE("a minimum is one of a set, and keeps the least of operands that differ by a constant") {
  CHECK(equal(min(kT, min(kN, kT)), min(kN, kT)));
  CHECK(equal(min(kT + 2, kT), kT));
  CHECK(equal(max(kT + 2, kT), kT + 2));
  CHECK(equal(max(0, kT - kN), 0 - min(0, kN - kT)));
}

TEST_CASE("coordinates are replaced by what they are given") {
  Forms forms;
  const std::vector<Form> at = {forms.of(kT + 1)};
  CHECK(Forms::equal(forms.of(16 * kJ + kN, at), forms.of(16 * kT + kN + 16)));
}

TEST_CASE("a factor beyond 64 bits makes a form that equals nothing") {
  Expr e = kT;
  for (int i = 0; i < 5; ++i) e = e * (int64_t{1} << 20);
  Forms forms;
  CHECK_FALSE(forms.of(e).exact);
  CHECK_FALSE(forms.equal(e, e));
}

Expr random_expr(std::mt19937& random, int depth) {
  if (depth == 0 || random() % 4 == 0) {
    const Expr leaves[] = {kT, kN, kJ, static_cast<int64_t>(random() % 9) - 4};
    return leaves[random() % 4];
  }
  const Expr a = random_expr(random, depth - 1), b = random_expr(random, depth - 1);
  const auto divisor = static_cast<int64_t>(random() % 5) + 1;
  return test::random_operation(random, a, b, b, divisor);
}

// The expressions are small and have few leaves, so that many pairs have equal forms.
TEST_CASE("expressions of one form have one value wherever they are evaluated") {
  std::mt19937 random(3);
  int same = 0;
  for (int round = 0; round < 20000; ++round) {
    const Expr a = random_expr(random, 2), b = random_expr(random, 2);
    if (!equal(a, b)) continue;
    ++same;
    for (int i = 0; i < 20; ++i) {
      const int64_t symbols[] = {static_cast<int64_t>(random() % 41) - 20,
                                 static_cast<int64_t>(random() % 41) - 20};
      const int64_t coords[] = {static_cast<int64_t>(random() % 41) - 20};
      REQUIRE(evaluate(a, symbols, coords) == evaluate(b, symbols, coords));
    }
  }
  CHECK(same > 300);
}

// Each expression is added to itself, so the expected form is known.
TEST_CASE("an expression keeps its value through its form") {
  std::mt19937 random(4);
  for (int round = 0; round < 2000; ++round) {
    const Expr e = random_expr(random, 4);
    Forms forms;
    const Form form = forms.of(e), twice = forms.of(e + e);
    CHECK(Forms::equal(Forms::sum(form, form), twice));
    CHECK(Forms::sum(twice, form, -2).is_const(0));
  }
}

}  // namespace
}  // namespace mkc
