// These tests compare tasks of row grids with float64, on each target.
#include "runtime/base/half.h"
#include "tests/unit/device/row_problem.h"

namespace mk {
namespace {

TEST_CASE("a row task takes norms of rows and heads, and rotates heads, of any width") {
  for (const u32 cols : {8u, 40u, 512u, 1000u, 1536u}) {
    check_row(row_problem({.cols = cols}));
    check_row(row_problem({.cols = cols, .norm_cols = cols}));
    check_row(row_problem({.cols = cols, .norm_cols = cols, .centered = true, .biased = true}));
    check_row(row_problem({.cols = cols, .norm_cols = 8}));
    check_row(row_problem({.cols = cols, .head_dim = 8}));
  }
  for (const u32 head : {2u, 6u, 24u, 64u, 80u, 96u, 768u, 1000u})
    for (const bool centered : {false, true}) {
      check_row(row_problem({.cols = 3 * head, .norm_cols = head, .centered = centered}));
      check_row(row_problem({.cols = 13 * head, .norm_cols = head, .head_dim = head, .centered = centered}));
    }
}

TEST_CASE("steps come in order, each with its operand or constant") {
  using enum RowStep;
  for (const Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kSigmoid}) {
    check_row(row_problem({.cols = 600, .steps = {{step_of(activation), 0}, {kMul, 0}}}));
    check_row(row_problem({.cols = 600, .steps = {{kScale, 30}, {step_of(activation), 0}}}));
  }
  check_row(row_problem({.cols = 600, .steps = {{kAdd, 0}, {kScale, -1.5f}, {kMul, 0}}}));
  check_row(row_problem({.cols = 600, .steps = {{kMin, 0.5f}, {kMax, -0.25f}, {kSoftCap, 0.3f}}}));
  check_row(row_problem({.cols = 600, .steps = {{kMul, 0}, {kScale, 2}, {kMax, 0}, {kAdd, 0}}}));
  check_row(row_problem({.cols = 40, .norm_cols = 40, .steps = {{kSoftCap, 30}, {kAdd, 0}}}));
  check_row(row_problem({.cols = 50, .steps = {{kSoftCap, 0.01f}}}));
  check_row(row_problem({.cols = 50, .steps = {{kSoftCap, 1e4f}}}));
}

TEST_CASE("activations have their limits at the ends") {
  const float ends[] = {-1e30f, -200, -88, 88, 200, 1e30f};
  for (const Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kSigmoid}) {
    RowProblem p = row_problem({.cols = 6, .steps = {{step_of(activation), 0}}});
    std::copy_n(ends, 6, p.x.begin());
    run_row(p);
    for (u32 i = 0; i < 6; ++i) {
      const float want = ends[i] < 0 ? 0 : activation == Activation::kSigmoid ? 1 : ends[i];
      CHECK(std::abs(p.out[i] - want) <= 1e-6f * std::abs(want) + 1e-30f);
    }
  }
}

// The gate of gpt-oss (2025) is min(g, 7) sigmoid(1.702 min(g, 7)) (min(max(u, -7), 7) + 1).
TEST_CASE("the gate of gpt-oss clamps the gate above, and the factor beside it on both sides") {
  using enum RowStep;
  const RowStep gate = step_of(Activation::kSwigluOai);
  const float above = std::nextafter(7.0f, 8.0f), below = std::nextafter(7.0f, 6.0f);
  const float edges[] = {-1e30f, -88, -above, -7, -below, -1, -0.0f, 0, 1, below, 7, above, 40, INFINITY};
  constexpr u32 kEdges = std::size(edges);
  RowProblem p = row_problem({.cols = kEdges * kEdges, .steps = {{gate, 0}, {kMulOai, 0}}});
  for (size_t i = 0; i < p.x.size(); ++i) {
    p.x[i] = edges[i % kEdges];
    p.operands[0][i] = -edges[i / kEdges % kEdges];
  }
  check_row(p);
  check_row(row_problem({.cols = 600, .steps = {{kScale, 6}, {gate, 0}, {kMulOai, 0}}}));
  check_row(row_problem({.cols = 600, .steps = {{gate, 0}, {kScale, 3}}}));
  check_row(
      row_problem({.cols = 40, .norm_cols = 40, .steps = {{kScale, 9}, {gate, 0}, {kMulOai, 0}, {kAdd, 0}}}));
}

TEST_CASE("a NaN stays through the gate of gpt-oss, from either side") {
  RowProblem p =
      row_problem({.cols = 8, .steps = {{step_of(Activation::kSwigluOai), 0}, {RowStep::kMulOai, 0}}});
  p.x[3] = NAN;
  p.operands[0][5] = NAN;
  run_row(p);
  for (u32 col = 0; col < 8; ++col) CHECK(std::isnan(p.out[col]) == (col == 3 || col == 5));
}

TEST_CASE("the best of each strip is the greatest, of the lowest column on ties") {
  for (const u32 cols : {16u, 100u, 1030u}) {
    RowProblem p = row_problem({.cols = cols});
    for (size_t i = 0; i < p.x.size(); i += 3) p.x[i] = 4;  // equal values make ties
    for (size_t i = 0; i < p.x.size(); i += 16) p.x[i] = NAN;
    run_row(p, true);
    const u32 strips = (cols + 15) / 16;
    for (u32 row = 0; row < kProblemRows; ++row)
      for (u32 strip = 0; strip < strips; ++strip) {
        const auto begin = p.x.begin() + row * cols + strip * 16,
                   end = p.x.begin() + row * cols + std::min(cols, strip * 16 + 16);
        const auto best =
            std::max_element(begin, end, [](float a, float b) { return plain_logit(a) < plain_logit(b); });
        const float value = p.best_value[row * strips + strip];
        CHECK((value == *best || (std::isnan(value) && std::isnan(*best))));
        CHECK(p.best_index[row * strips + strip] == strip * 16 + static_cast<u32>(best - begin));
      }
  }
}

TEST_CASE("a NaN stays through limits, norms and conversions") {
  RowProblem p = row_problem({.cols = 24, .steps = {{RowStep::kMin, 1}, {RowStep::kMax, -1}}});
  p.x[3] = NAN;
  run_row(p);
  CHECK(std::isnan(p.out[3]));
  CHECK(std::isnan(from_bf16(p.x_bf16[3])));
  CHECK(!std::isnan(p.out[2]));
  RowProblem n = row_problem({.cols = 24, .norm_cols = 24, .out_bf16 = true});
  n.x[3] = NAN;
  run_row(n);
  for (u32 i = 0; i < 24; ++i) CHECK(std::isnan(n.value(i)));
  CHECK(!std::isnan(n.value(24)));
}

}  // namespace
}  // namespace mk
