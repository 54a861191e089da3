// Tests of 8-bit activations round these by themselves.
#pragma once

#include <span>

#include "tests/unit/device/product.h"
#include "tests/unit/worse.h"

namespace mk {

constexpr WeightType kE4m3Types[] = {WeightType::kE4m3, WeightType::kE4m3Block};

// Returns the nearest number of E4M3 (OCP 8-bit floating point specification), at most 448. A tie goes to
// even.
inline double nearest_e4m3(double v) {
  const double spacing = std::ldexp(1, std::max(v == 0 ? -6 : std::ilogb(v), -6) - 3);
  return std::clamp(std::nearbyint(v / spacing) * spacing, -448.0, 448.0);
}

// Rounds elements [begin, end) of a row, which share a scale. The scale is a power of 2 that puts the
// greatest magnitude between 128 and 256. Returns what codes are to be multiplied with.
inline double round_to_e4m3(std::vector<double>& row, size_t begin, size_t end) {
  double max = 0;
  for (size_t i = begin; i < end; ++i) max = std::max(max, std::abs(row[i]));
  const double scale = max == 0 ? 1 : std::ldexp(1, 7 - std::ilogb(max));
  for (size_t i = begin; i < end; ++i) row[i] = nearest_e4m3(row[i] * scale) / scale;
  return 1 / scale;
}

// Returns rows of bf16, of which each column group has another size, and some groups are 0. Sizes are from
// 2^-`spread` to 2^`spread`.
inline Rounded uneven_rows(const Case& c, const Problem& p, int spread = 20) {
  Rounded in = round_input(c, p, 5);
  for (size_t i = 0; i < in.x.size(); ++i) {
    const size_t token = i / c.cols, group = i % c.cols / 24;
    const int exponent = static_cast<int>(token * 5 + group * 11) % (2 * spread) - spread;
    in.x[i] = group % 7 == 3 ? 0 : to_bf16(std::ldexp(from_bf16(in.x[i]), exponent));
  }
  return in;
}

inline std::vector<double> row_of(const Case& c, const Rounded& in, uint32_t token) {
  std::vector<double> row(c.cols);
  for (uint32_t k = 0; k < c.cols; ++k) row[k] = from_bf16(in.x[token * c.cols + k]);
  return row;
}

// Calls check(case, problem, arguments, output) for each case and type of weights.
template <class Check>
void for_each_e4m3(std::span<const Case> cases, const Check& check) {
  for (Case c : cases)
    for (const WeightType type : kE4m3Types) {
      c.coded = type;
      CAPTURE(static_cast<int>(type));
      CAPTURE(c.rows);
      CAPTURE(c.cols);
      CAPTURE(c.tokens);
      Problem p = make_problem(c);
      std::vector<float> out(size_t{c.tokens} * c.rows, NAN);
      check(c, p, make_args(c, p, out), out);
    }
}

// Checks products of rows that round(row) rounds, times norm(token), against float64. Products of rows that
// are not rounded must differ from these, but little.
template <class Round, class Norm>
void check_rounded(const Case& c, const Problem& p, const Rounded& in, const std::vector<float>& out,
                   double tolerance, const Round& round, const Norm& norm) {
  double plain = 0;  // the greatest distance from products that are not rounded
  for (uint32_t t = 0; t < c.tokens; ++t) {
    std::vector<double> row = row_of(c, in, t), want(c.rows), exact(c.rows);
    for (uint32_t r = 0; r < c.rows; ++r) exact[r] = norm(t) * dot(c, p, row, r);
    round(row);
    for (uint32_t r = 0; r < c.rows; ++r) want[r] = norm(t) * dot(c, p, row, r);
    CHECK(row_error(&out[t * c.rows], want.data(), c.rows) < tolerance);
    plain = mkc::test::worse(plain, row_error(&out[t * c.rows], exact.data(), c.rows));
  }
  CHECK(plain > 0.005);
  CHECK(plain < 0.1);
}

// Checks that a value that is not finite reaches the products of its own row alone, and that a row of 0 gives
// 0. ask(arguments, rows) asks for 8-bit activations, and returns what must live meanwhile.
template <class Ask>
void check_values_that_are_not_finite(Case c, const Ask& ask) {
  for (const WeightType type : kE4m3Types)
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      c.coded = type;
      Problem p = make_problem(c);
      Rounded in = round_input(c, p, 5);
      in.x[9 * c.cols + 300] = to_bf16(bad);
      std::fill_n(in.x.begin() + 11 * c.cols, c.cols, 0);
      std::vector<float> out(size_t{c.tokens} * c.rows, NAN);
      AllArgs a = make_args(c, p, out);
      take_rounded(a, in, 5);
      a.sumsq_partials = 0;
      [[maybe_unused]] const auto kept = ask(a, in);
      run(c, p, a);
      for (size_t i = 0; i < out.size(); ++i) {
        CHECK(std::isfinite(out[i]) == (i / c.rows != 9));
        if (i / c.rows == 11) CHECK(out[i] == 0);
      }
    }
}

}  // namespace mk
