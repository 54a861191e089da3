// These tests compare products whose activations are 8-bit floats with float64. The reference rounds the
// activations by itself.
#include "tests/unit/device/fp8.h"

namespace mk {
namespace {

constexpr u32 kFp8From = 33;

// Rounds a row to 8-bit floats. The columns that a K slice has in a tile share a scale. The scale is a power
// of 2 that puts the greatest magnitude between 128 and 256.
void round_to_fp8(const PackedShape& s, std::vector<double>& row) {
  const size_t of_k_slice = s.padded_cols / mkrt::kKSlices, of_tile = s.tile_cols / mkrt::kKSlices;
  for (size_t begin = 0; begin < row.size();) {
    const size_t in_k_slice = begin % of_k_slice,
                 end = std::min(row.size(), begin + std::min(of_tile, of_k_slice - in_k_slice));
    round_to_e4m3(row, begin, end);
    begin = end;
  }
}

const Case kCases[] = {{16, 512, 33, true},  {33, 600, 40, true},    {150, 1024, 64, true},
                       {64, 120, 130, true}, {20, 130, 80, true},    {200, 64, 256, true},
                       {150, 700, 65, true}, {128, 1096, 128, true}, {48, 1536, 63, true}};

// Calls check(case, problem, arguments, output) for each case and type of weights.
template <class Check>
void for_each_case(const Check& check) {
  for_each_e4m3(kCases, [&](const Case& c, Problem& p, AllArgs a, const std::vector<float>& out) {
    a.fp8_from = kFp8From;
    check(c, p, a, out);
  });
}

TEST_CASE("a product of 8-bit activations agrees with float64 on the rounded activations") {
  for_each_case([](const Case& c, Problem& p, AllArgs a, const std::vector<float>& out) {
    Rounded in = uneven_rows(c, p);
    take_rounded(a, in, 5);
    a.sumsq_partials = 0;
    for (const bool bulk : {true, false})
      for (const u32 mma64_strips : {kBlockStrips, kMma64Strips}) {
        a.mma64_strips = mma64_strips;
        run(c, p, a, 1, bulk);
        check_rounded(
            c, p, in, out, 2e-6, [&](std::vector<double>& row) { round_to_fp8(p.shape, row); },
            [](uint32_t) { return 1.0; });
      }
  });
}

TEST_CASE("rows of f32 with a norm are rounded to bf16 before they become 8-bit floats") {
  for_each_case([](const Case& c, Problem& p, AllArgs a, const std::vector<float>& out) {
    a.norm = global(p.norm.data());
    a.normed = 1;
    run(c, p, a);
    for (uint32_t t = 0; t < c.tokens; ++t) {
      std::vector<double> row = product_input(c, p, true, t), want(c.rows);
      round_to_fp8(p.shape, row);
      for (uint32_t r = 0; r < c.rows; ++r) want[r] = dot(c, p, row, r);
      // A value near a tie may round to the other neighbour, of bf16 and so of E4M3. This moves one of `cols`
      // terms by a factor of 2^-4.
      CHECK(row_error(&out[t * c.rows], want.data(), c.rows) < 1e-2);
    }
  });
}

TEST_CASE("bits of 8-bit activations do not depend on other tokens, blocks or who loads") {
  for (const WeightType type : kE4m3Types)
    check_bits_of_fewer({40, 700, 150, true, type}, {33u, 48u, 64u, 65u, 128u}, {~0u, 1u},
                        [](AllArgs& a) { a.fp8_from = kFp8From; });
}

TEST_CASE("steps of fewer tokens keep bf16 activations, and so do weights that are no E4M3") {
  for (const auto& [bf16, coded] : all_weights())
    for (const uint32_t tokens : {7u, 20u, 32u, 40u}) {
      if (tokens >= kFp8From && mkrt::weight_format(coded).e4m3()) continue;
      const Case c{40, 700, tokens, bf16, coded};
      CAPTURE(static_cast<int>(coded));
      CAPTURE(tokens);
      Problem p = make_problem(c);
      std::vector<float> plain(size_t{tokens} * c.rows, NAN), asked(plain.size(), NAN);
      run(c, p, make_args(c, p, plain));
      AllArgs a = make_args(c, p, asked);
      a.fp8_from = kFp8From;
      run(c, p, a);
      CHECK(plain == asked);
    }
}

TEST_CASE("an activation that is not finite reaches its own token alone, and 0 stays 0") {
  check_values_that_are_not_finite({40, 700, 40, true},
                                   [](AllArgs& a, const Rounded&) { return a.fp8_from = kFp8From; });
}

}  // namespace
}  // namespace mk
