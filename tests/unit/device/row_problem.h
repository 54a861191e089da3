// Tests of row grids share their tasks and these references in float64.
#pragma once

#include <algorithm>
#include <cmath>

#include "tests/unit/device/launch.h"

namespace mk {

constexpr u32 kProblemRows = 3;

// RowProblem is a row grid of kProblemRows rows, with its inputs and outputs.
struct RowProblem {
  u32 cols, norm_cols = 0, head_dim = 0;
  bool centered = false, biased = false;
  std::vector<std::pair<RowStep, float>> steps{};  // each step with its constant
  bool out_bf16 = false, gather = false;
  std::vector<float> x{}, norm{}, bias{}, rope{}, operands[kMaxRowOperands]{}, next_norm{};
  std::vector<float> out{}, sum_squares{}, best_value{};
  std::vector<uint16_t> x_bf16{};
  std::vector<u32> positions{7, 0, 3}, best_index{};
  std::vector<u32> first_row{0, 2, 3}, q_len{2, 1, 9};  // the last request has rows that are not there

  u32 x_rows() const { return gather ? 5 : kProblemRows; }
  // block_cols() is the columns of a task.
  u32 block_cols() const {
    const u32 head = std::max(norm_cols, head_dim);
    if (norm_cols == cols || head == 0) return norm_cols == 0 ? kRowCols : cols;
    return std::max(kRowCols / head, 1u) * head;
  }
  u32 blocks() const { return (cols + block_cols() - 1) / block_cols(); }
  float value(size_t i) const {
    return out_bf16 ? from_bf16(reinterpret_cast<const uint16_t*>(out.data())[i]) : out[i];
  }
};

// Returns the problem with random inputs.
inline RowProblem row_problem(RowProblem p) {
  std::mt19937 random(p.cols);
  std::normal_distribution<float> normal(0.2f, 1);
  const auto fill = [&](std::vector<float>& v, size_t n) {
    for (size_t i = 0; i < n; ++i) v.push_back(normal(random));
  };
  fill(p.x, p.x_rows() * p.cols), fill(p.norm, p.cols), fill(p.bias, p.cols), fill(p.rope, 8 * p.cols);
  fill(p.next_norm, p.cols);
  for (std::vector<float>& operand : p.operands) fill(operand, kProblemRows * p.cols);
  p.out.assign(kProblemRows * p.cols, NAN), p.x_bf16.resize(kProblemRows * p.cols);
  p.sum_squares.assign(kProblemRows * p.blocks(), NAN);
  p.best_value.resize(kProblemRows * ((p.cols + 15) / 16)), p.best_index.resize(p.best_value.size());
  return p;
}

inline RowArgs row_args(RowProblem& p, bool best) {
  RowArgs a{};
  a.x = global(p.x.data()), a.out = global(p.out.data());
  a.rows = kProblemRows, a.x_rows = p.x_rows(), a.cols = p.cols, a.block_cols = p.block_cols();
  a.norm_cols = p.norm_cols, a.head_dim = p.head_dim, a.centered = p.centered, a.eps = 1e-5f;
  a.gather_rows = p.gather, a.out_bf16 = p.out_bf16;
  if (p.norm_cols) a.norm = global(p.norm.data());
  if (p.biased) a.norm_bias = global(p.bias.data());
  if (p.head_dim) a.rope = global(p.rope.data()), a.positions = global(p.positions.data());
  for (u32 i = 0; i < kMaxRowOperands; ++i) a.operand[i] = global(p.operands[i].data());
  for (u32 i = 0; i < p.steps.size(); ++i) a.step[i] = p.steps[i].first, a.value[i] = p.steps[i].second;
  if (best)
    a.best_value = global(p.best_value.data()), a.best_index = global(p.best_index.data());
  else
    a.norm_outputs = {global(p.next_norm.data()), global(reinterpret_cast<char*>(p.x_bf16.data())),
                      global(p.sum_squares.data())};
  return a;
}

// Runs all tasks of a row grid. A test of each target defines it. `best` asks for the best of each strip in
// place of what the next norm takes.
void run_row(RowProblem& p, bool best = false);

// Returns the row after its norm and rotation, computed in double from their definitions.
inline std::vector<double> headed(const RowProblem& p, u32 row) {
  const u32 from = p.gather ? std::min(p.first_row[row] + p.q_len[row] - 1, p.x_rows() - 1) : row;
  std::vector<double> v(p.x.begin() + from * p.cols, p.x.begin() + (from + 1) * p.cols);
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

inline double stepped(RowStep step, double v, double operand, double value) {
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

inline void check_row(RowProblem p) {
  CAPTURE(p.cols);
  CAPTURE(p.norm_cols);
  CAPTURE(p.head_dim);
  run_row(p);
  const u32 cols = p.block_cols();
  for (u32 row = 0; row < kProblemRows; ++row) {
    const std::vector<double> v = headed(p, row);
    std::vector<double> squares(p.blocks());
    for (u32 col = 0; col < p.cols; ++col) {
      double want = v[col];
      u32 operand = 0;
      for (const auto& [step, value] : p.steps)
        want = stepped(step, want, has_operand(step) ? p.operands[operand++][row * p.cols + col] : 0, value);
      CAPTURE(row);
      CAPTURE(col);
      const size_t at = row * p.cols + col;
      CHECK(std::abs(p.value(at) - want) <= 2e-6 + (p.out_bf16 ? 0x1p-8 : 2e-5) * std::abs(want));
      // x_bf16 is made of the value before that is rounded.
      if (!p.out_bf16) CHECK(p.x_bf16[at] == to_bf16(p.out[at] * p.next_norm[col]));
      squares[col / cols] += want * want;
    }
    for (u32 block = 0; block < p.blocks(); ++block)
      CHECK(p.sum_squares[row * p.blocks() + block] == doctest::Approx(squares[block]).epsilon(1e-4));
  }
}

}  // namespace mk
