// These tests compare rows that quantize tasks round, and products of them by warpgroups, with float64. The
// reference rounds the rows by itself.
#include "tests/unit/device/fp8.h"

namespace mk {
namespace {

constexpr u32 kFrom = 33;  // fewest tokens of warpgroups

// CodedRows are what quantize tasks leave of rows.
struct CodedRows {
  std::vector<uint8_t> codes;
  std::vector<float> scale;
};

CodedRows quantize(const Case& c, const std::vector<uint16_t>& x,
                   const std::vector<float>& sum_squares = {}) {
  CodedRows made{std::vector<uint8_t>(x.size(), 0x55), std::vector<float>(c.tokens, NAN)};
  const QuantizeArgs a{global(reinterpret_cast<const char*>(x.data())),
                       global(sum_squares.data()),
                       global(reinterpret_cast<char*>(made.codes.data())),
                       global(made.scale.data()),
                       c.cols,
                       static_cast<u32>(sum_squares.size() / c.tokens),
                       1e-5f};
  Sides s;
  s.consume = [&](Worker& w) {
    for (u32 row = 0; row < c.tokens; ++row) {
      mkb_quantize(&w, &a, row);
      mkd_barrier();
    }
  };
  launch(s);
  return made;
}

void take_codes(AllArgs& a, const CodedRows& rows) {
  a.codes = global(reinterpret_cast<const char*>(rows.codes.data()));
  a.code_scale = global(rows.scale.data());
  a.has_codes = 1;
  a.wgmma_from = kFrom;
}

// Returns the number of a code by the definition of E4M3: a sign, 4 bits of exponent, 3 of mantissa.
double number_of(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if ((code & 0x7f) == 0x7f) return NAN;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

TEST_CASE("a quantize task leaves the nearest codes of a row and its scale") {
  for (const u32 cols : {16u, 48u, 512u, 4096u, 12304u}) {
    const Case c{16, cols, 9, true, WeightType::kE4m3};
    CAPTURE(cols);
    Problem p = make_problem(c);
    Rounded in = uneven_rows(c, p, 9);
    std::fill_n(in.x.begin() + 3 * cols, cols, 0);
    std::fill_n(in.x.begin() + 4 * cols, cols, to_bf16(-0x1p-130f));  // below what is scaled
    const CodedRows made = quantize(c, in.x);
    for (u32 t = 0; t < c.tokens; ++t) {
      std::vector<double> row = row_of(c, in, t);
      const double scale = round_to_e4m3(row, 0, cols);
      if (t != 3 && t != 4) CHECK(made.scale[t] == scale);
      for (u32 k = 0; k < cols; ++k) {
        const double found = number_of(made.codes[t * cols + k]) * made.scale[t];
        CHECK((t == 4 ? std::abs(found) <= 0x1p-129 : found == row[k]));
      }
    }
  }
}

// Weights of E4M3 have rows of whole chunks. Scales of blocks need full parts of tiles.
const Case kCases[] = {{16, 512, 65, true},   {33, 592, 100, true},  {150, 1024, 128, true},
                       {64, 112, 130, true},  {200, 64, 256, true},  {128, 1104, 129, true},
                       {40, 1536, 70, true},  {136, 2048, 66, true}, {40, 1536, 33, true},
                       {150, 2048, 64, true}, {33, 592, 50, true}};

TEST_CASE("a product of codes agrees with float64 on the rounded rows") {
  for_each_e4m3(kCases, [](const Case& c, Problem& p, AllArgs a, const std::vector<float>& out) {
    if (c.cols % mkrt::wgmma_cols(mkrt::weight_format(c.coded)) != 0) return;  // not by warpgroups
    Rounded in = uneven_rows(c, p, 4);
    take_rounded(a, in, 5);
    for (const uint32_t parts : {0u, 5u}) {
      const CodedRows rows = quantize(c, in.x, parts == 0 ? std::vector<float>() : in.sum_squares);
      take_codes(a, rows);
      const auto norm = [&](uint32_t token) {
        double squares = 0;
        for (uint32_t i = 0; i < parts; ++i) squares += in.sum_squares[token * 5 + i];
        return parts == 0 ? 1 : 1 / std::sqrt(squares / c.cols + 1e-5);
      };
      for (const bool bulk : {true, false}) {
        a.sumsq_partials = parts;
        run(c, p, a, 1, bulk);
        check_rounded(
            c, p, in, out, 4e-6, [&](std::vector<double>& row) { round_to_e4m3(row, 0, c.cols); }, norm);
      }
    }
  });
}

TEST_CASE("steps of fewer tokens multiply rows of bf16, whether or not there are codes") {
  for (const uint32_t tokens : {5u, 16u, 20u, 32u}) {
    const Case c{40, 1024, tokens, true, WeightType::kE4m3};
    Problem p = make_problem(c);
    Rounded in = round_input(c, p, 5);
    const CodedRows nothing{std::vector<uint8_t>(in.x.size(), 0x7f), std::vector<float>(tokens, NAN)};
    std::vector<float> plain(size_t{tokens} * c.rows, NAN), asked(plain.size(), NAN);
    AllArgs a = make_args(c, p, plain);
    take_rounded(a, in, 5);
    run(c, p, a);
    a.out = global(asked.data());
    take_codes(a, nothing);
    run(c, p, a);
    CHECK(plain == asked);
  }
}

TEST_CASE("a value of a row that is not finite reaches its own token alone, and 0 stays 0") {
  check_values_that_are_not_finite({40, 1024, 70, true}, [](AllArgs& a, const Rounded& in) {
    CodedRows rows = quantize({40, 1024, 70, true}, in.x);
    take_codes(a, rows);
    return rows;
  });
}

TEST_CASE("bits of a product of codes do not depend on blocks") {
  for (const WeightType type : kE4m3Types) {
    const Case c{150, 1024, 130, true, type};
    Problem p = make_problem(c);
    Rounded in = round_input(c, p, 5);
    const CodedRows rows = quantize(c, in.x);
    const auto product = [&](u32 max) {
      std::vector<float> out(size_t{c.tokens} * c.rows, NAN);
      AllArgs a = make_args(c, p, out);
      take_rounded(a, in, 5);
      take_codes(a, rows);
      run(c, p, a, 1, true, max);
      return out;
    };
    CHECK(product(~0u) == product(1));
  }
}

}  // namespace
}  // namespace mk
