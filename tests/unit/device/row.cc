// These tests compare tasks of row grids with float64.
#include <algorithm>
#include <cmath>

#include "tests/unit/device/launch.h"

namespace mk {
namespace {

constexpr u32 kRows = 3;

struct Problem {
  u32 cols, norm_cols = 0, head_dim = 0;
  bool centered = false, biased = false;
  std::vector<std::pair<RowStep, float>> steps{};  // each step with its constant
  std::vector<float> x{}, norm{}, bias{}, rope{}, operands[kMaxRowOperands]{}, out{}, best_value{};
  std::vector<u32> positions{7, 0, 3}, best_index{};
};

Problem problem(Problem p) {
  std::mt19937 random(p.cols);
  std::normal_distribution<float> normal(0.2f, 1);
  const auto fill = [&](std::vector<float>& v, size_t n) {
    for (size_t i = 0; i < n; ++i) v.push_back(normal(random));
  };
  fill(p.x, kRows * p.cols), fill(p.norm, p.cols), fill(p.bias, p.cols), fill(p.rope, 8 * p.cols);
  for (std::vector<float>& operand : p.operands) fill(operand, kRows * p.cols);
  p.out.resize(kRows * p.cols);
  p.best_value.resize(kRows * ((p.cols + 15) / 16)), p.best_index.resize(p.best_value.size());
  return p;
}

u32 block_of(const Problem& p) {
  const u32 head = p.norm_cols > p.head_dim ? p.norm_cols : p.head_dim;
  if (p.norm_cols == p.cols || head == 0) return p.norm_cols == 0 ? kRowCols : p.cols;
  return (kRowCols / head > 0 ? kRowCols / head : 1) * head;
}

void run(Problem& p, bool best = false) {
  RowArgs a{};
  a.x = global(p.x.data()), a.out = global(p.out.data());
  a.rows = a.x_rows = kRows, a.cols = p.cols, a.block_cols = block_of(p);
  a.norm_cols = p.norm_cols, a.head_dim = p.head_dim, a.centered = p.centered, a.eps = 1e-5f;
  if (p.norm_cols) a.norm = global(p.norm.data());
  if (p.biased) a.norm_bias = global(p.bias.data());
  if (p.head_dim) a.rope = global(p.rope.data()), a.positions = global(p.positions.data());
  for (u32 i = 0; i < kMaxRowOperands; ++i) a.operand[i] = global(p.operands[i].data());
  for (u32 i = 0; i < p.steps.size(); ++i) a.step[i] = p.steps[i].first, a.value[i] = p.steps[i].second;
  if (best) a.best_value = global(p.best_value.data()), a.best_index = global(p.best_index.data());
  Sides s;
  s.consume = [&](Worker& w) {
    for (u32 row = 0; row < kRows; ++row)
      for (u32 block = 0; block * a.block_cols < a.cols; ++block) {
        mkb_row(&w, &a, row, block);
        mkd_barrier();
      }
  };
  launch(s);
}

// Returns the row after its norm and rotation, computed in double from their definitions.
std::vector<double> headed(const Problem& p, u32 row) {
  std::vector<double> v(p.x.begin() + row * p.cols, p.x.begin() + (row + 1) * p.cols);
  for (u32 begin = 0; p.norm_cols && begin < p.cols; begin += p.norm_cols) {
    double mean = 0, squares = 0;
    for (u32 i = 0; p.centered && i < p.norm_cols; ++i) mean += v[begin + i] / p.norm_cols;
    for (u32 i = 0; i < p.norm_cols; ++i) squares += std::pow(v[begin + i] - mean, 2) / p.norm_cols;
    for (u32 i = 0; i < p.norm_cols; ++i)
      v[begin + i] =
          (v[begin + i] - mean) / std::sqrt(squares + 1e-5) * p.norm[i] + (p.biased ? p.bias[i] : 0);
  }
  const u32 half = p.head_dim / 2;
  for (u32 begin = 0; p.head_dim && begin < p.cols; begin += p.head_dim)
    for (u32 i = 0; i < half; ++i) {
      const double low = v[begin + i], high = v[begin + half + i];
      const double c = p.rope[p.positions[row] * p.head_dim + i],
                   s = p.rope[p.positions[row] * p.head_dim + half + i];
      v[begin + i] = low * c - high * s, v[begin + half + i] = high * c + low * s;
    }
  return v;
}

double stepped(RowStep step, double v, double operand, double value) {
  const double sigmoid = 1 / (1 + std::exp(-v));
  if (step == step_of(Activation::kSilu)) return v * sigmoid;
  if (step == step_of(Activation::kGelu)) return v / 2 * (1 + std::erf(v / std::sqrt(2.0)));
  if (step == step_of(Activation::kGeluTanh))
    return v / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v)));
  if (step == step_of(Activation::kSigmoid)) return sigmoid;
  if (step == step_of(Activation::kSwigluOai))
    return std::min(v, 7.0) / (1 + std::exp(-1.702 * std::min(v, 7.0)));
  if (step == RowStep::kMulOai) return v * (std::clamp(operand, -7.0, 7.0) + 1);
  if (step == RowStep::kAdd) return v + operand;
  if (step == RowStep::kMul) return v * operand;
  if (step == RowStep::kScale) return v * value;
  if (step == RowStep::kMin) return std::min(v, value);
  if (step == RowStep::kMax) return std::max(v, value);
  return value * std::tanh(v / value);
}

void check(Problem p) {
  run(p);
  for (u32 row = 0; row < kRows; ++row) {
    const std::vector<double> v = headed(p, row);
    for (u32 col = 0; col < p.cols; ++col) {
      double want = v[col];
      u32 operand = 0;
      for (const auto& [step, value] : p.steps)
        want = stepped(step, want, has_operand(step) ? p.operands[operand++][row * p.cols + col] : 0, value);
      CAPTURE(row);
      CAPTURE(col);
      CHECK(std::abs(p.out[row * p.cols + col] - want) <= 2e-6 + 2e-5 * std::abs(want));
    }
  }
}

TEST_CASE("a row task takes norms of rows and heads, and rotates heads, of any width") {
  for (const u32 cols : {8u, 40u, 512u, 1000u, 1536u}) {
    CAPTURE(cols);
    check(problem({.cols = cols}));
    check(problem({.cols = cols, .norm_cols = cols}));
    check(problem({.cols = cols, .norm_cols = cols, .centered = true, .biased = true}));
    check(problem({.cols = cols, .norm_cols = 8}));
    check(problem({.cols = cols, .head_dim = 8}));
  }
  for (const u32 head : {2u, 6u, 64u, 96u, 768u}) {
    CAPTURE(head);
    check(problem({.cols = 3 * head, .norm_cols = head, .head_dim = head}));
  }
}

TEST_CASE("steps come in order, each with its operand or constant") {
  using enum RowStep;
  for (const Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kSigmoid})
    check(problem({.cols = 600, .steps = {{step_of(activation), 0}, {kMul, 0}}}));
  check(problem({.cols = 600, .steps = {{kAdd, 0}, {kScale, -1.5f}, {kMul, 0}}}));
  check(problem({.cols = 600, .steps = {{kMin, 0.5f}, {kMax, -0.25f}, {kSoftCap, 0.3f}}}));
  check(problem({.cols = 40, .norm_cols = 40, .steps = {{kSoftCap, 30}, {kAdd, 0}}}));
}

// The gate of gpt-oss (2025) is min(g, 7) sigmoid(1.702 min(g, 7)) (min(max(u, -7), 7) + 1).
TEST_CASE("the gate of gpt-oss clamps the gate above, and the factor beside it on both sides") {
  using enum RowStep;
  const RowStep gate = step_of(Activation::kSwigluOai);
  const float above = std::nextafter(7.0f, 8.0f), below = std::nextafter(7.0f, 6.0f);
  const float edges[] = {-1e30f, -88, -above, -7, -below, -1, -0.0f, 0, 1, below, 7, above, 40, INFINITY};
  constexpr u32 kEdges = std::size(edges);
  Problem p = problem({.cols = kEdges * kEdges, .steps = {{gate, 0}, {kMulOai, 0}}});
  for (size_t i = 0; i < p.x.size(); ++i) {
    p.x[i] = edges[i % kEdges];
    p.operands[0][i] = -edges[i / kEdges % kEdges];
  }
  check(p);
  check(problem({.cols = 600, .steps = {{kScale, 6}, {gate, 0}, {kMulOai, 0}}}));
  check(problem({.cols = 600, .steps = {{gate, 0}, {kScale, 3}}}));
  check(problem({.cols = 40, .norm_cols = 40, .steps = {{kScale, 9}, {gate, 0}, {kMulOai, 0}, {kAdd, 0}}}));
}

TEST_CASE("a NaN stays through the gate of gpt-oss, from either side") {
  Problem p = problem({.cols = 8, .steps = {{step_of(Activation::kSwigluOai), 0}, {RowStep::kMulOai, 0}}});
  p.x[3] = NAN;
  p.operands[0][5] = NAN;
  run(p);
  for (u32 col = 0; col < 8; ++col) CHECK(std::isnan(p.out[col]) == (col == 3 || col == 5));
}

TEST_CASE("the best of each strip is the greatest, of the lowest column on ties") {
  for (const u32 cols : {16u, 100u, 1030u}) {
    Problem p = problem({.cols = cols});
    for (size_t i = 0; i < p.x.size(); i += 3) p.x[i] = 4;  // equal values make ties
    run(p, true);
    const u32 strips = (cols + 15) / 16;
    for (u32 row = 0; row < kRows; ++row)
      for (u32 strip = 0; strip < strips; ++strip) {
        const auto begin = p.x.begin() + row * cols + strip * 16,
                   end = p.x.begin() + row * cols + std::min(cols, strip * 16 + 16);
        const auto best = std::max_element(begin, end);
        CHECK(p.best_value[row * strips + strip] == *best);
        CHECK(p.best_index[row * strips + strip] == strip * 16 + static_cast<u32>(best - begin));
      }
  }
}

TEST_CASE("a NaN stays through limits") {
  Problem p = problem({.cols = 8, .steps = {{RowStep::kMin, 1}, {RowStep::kMax, -1}}});
  p.x[3] = NAN;
  run(p);
  CHECK(std::isnan(p.out[3]));
}

}  // namespace
}  // namespace mk
