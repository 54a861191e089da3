// These tests compare tasks that compute rows with float64: row grids, embed and expert_sum.
#include <algorithm>
#include <cmath>

#include "runtime/base/half.h"
#include "tests/unit/processor/worker.h"

namespace mk {
namespace {

constexpr u32 kRows = 3;

struct Problem {
  u32 cols, norm_cols = 0, head_dim = 0;
  bool centered = false, biased = false;
  std::vector<std::pair<RowStep, float>> steps{};  // each step with its constant
  bool out_bf16 = false, gather = false;
  std::vector<float> x{}, norm{}, bias{}, rope{}, operands[kMaxRowOperands]{}, next_norm{};
  std::vector<float> out{}, sum_squares{}, best_value{};
  std::vector<uint16_t> x_bf16{};
  std::vector<u32> positions{7, 0, 3}, best_index{};
  std::vector<u32> first_row{0, 2, 3}, q_len{2, 1, 9};  // the last request has rows that are not there

  u32 x_rows() const { return gather ? 5 : kRows; }
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

Problem problem(Problem p) {
  std::mt19937 random(p.cols);
  std::normal_distribution<float> normal(0.2f, 1);
  const auto fill = [&](std::vector<float>& v, size_t n) {
    for (size_t i = 0; i < n; ++i) v.push_back(normal(random));
  };
  fill(p.x, p.x_rows() * p.cols), fill(p.norm, p.cols), fill(p.bias, p.cols), fill(p.rope, 8 * p.cols);
  fill(p.next_norm, p.cols);
  for (std::vector<float>& operand : p.operands) fill(operand, kRows * p.cols);
  p.out.assign(kRows * p.cols, NAN), p.x_bf16.resize(kRows * p.cols);
  p.sum_squares.assign(kRows * p.blocks(), NAN);
  p.best_value.resize(kRows * ((p.cols + 15) / 16)), p.best_index.resize(p.best_value.size());
  return p;
}

void run(Problem& p, bool best = false) {
  RowArgs a{};
  a.x = global(p.x.data()), a.out = global(p.out.data());
  a.rows = kRows, a.x_rows = p.x_rows(), a.cols = p.cols, a.block_cols = p.block_cols();
  a.norm_cols = p.norm_cols, a.head_dim = p.head_dim, a.centered = p.centered, a.eps = 1e-5f;
  a.gather_rows = p.gather, a.out_bf16 = p.out_bf16;
  a.first_row = shared(p.first_row.data()), a.q_len = shared(p.q_len.data());
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
  TestWorker worker;
  for (u32 row = 0; row < kRows; ++row)
    for (u32 block = 0; block < p.blocks(); ++block) mkb_row(&worker.w, &a, row, block);
}

// Returns the row after its norm and rotation, computed in double from their definitions.
std::vector<double> headed(const Problem& p, u32 row) {
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
  CAPTURE(p.cols);
  CAPTURE(p.norm_cols);
  CAPTURE(p.head_dim);
  run(p);
  const u32 cols = p.block_cols();
  for (u32 row = 0; row < kRows; ++row) {
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

TEST_CASE("a row task takes norms of rows and heads, and rotates heads, of any width") {
  for (const u32 cols : {8u, 40u, 512u, 1000u, 1536u}) {
    check(problem({.cols = cols}));
    check(problem({.cols = cols, .norm_cols = cols}));
    check(problem({.cols = cols, .norm_cols = cols, .centered = true, .biased = true}));
    check(problem({.cols = cols, .norm_cols = 8}));
    check(problem({.cols = cols, .head_dim = 8}));
  }
  for (const u32 head : {2u, 6u, 24u, 64u, 80u, 96u, 768u, 1000u})
    for (const bool centered : {false, true}) {
      check(problem({.cols = 3 * head, .norm_cols = head, .centered = centered}));
      check(problem({.cols = 13 * head, .norm_cols = head, .head_dim = head, .centered = centered}));
    }
}

TEST_CASE("a row task gathers the last row of each request, and stores bf16") {
  for (const u32 cols : {1u, 15u, 80u, 1001u}) {
    check(problem({.cols = cols, .gather = true}));
    check(problem({.cols = cols, .out_bf16 = true, .gather = true}));
    check(problem({.cols = cols, .norm_cols = cols, .out_bf16 = true, .gather = true}));
  }
  check(problem({.cols = 240, .norm_cols = 24, .head_dim = 24, .out_bf16 = true, .gather = true}));
}

TEST_CASE("steps come in order, each with its operand or constant") {
  using enum RowStep;
  for (const Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kSigmoid}) {
    check(problem({.cols = 600, .steps = {{step_of(activation), 0}, {kMul, 0}}}));
    check(problem({.cols = 600, .steps = {{kScale, 30}, {step_of(activation), 0}}}));
  }
  check(problem({.cols = 600, .steps = {{kAdd, 0}, {kScale, -1.5f}, {kMul, 0}}}));
  check(problem({.cols = 600, .steps = {{kMin, 0.5f}, {kMax, -0.25f}, {kSoftCap, 0.3f}}}));
  check(problem({.cols = 600, .steps = {{kMul, 0}, {kScale, 2}, {kMax, 0}, {kAdd, 0}}}));
  check(problem({.cols = 40, .norm_cols = 40, .steps = {{kSoftCap, 30}, {kAdd, 0}}}));
  check(problem({.cols = 50, .steps = {{kSoftCap, 0.01f}}}));
  check(problem({.cols = 50, .steps = {{kSoftCap, 1e4f}}}));
}

TEST_CASE("activations have their limits at the ends") {
  const float ends[] = {-1e30f, -200, -88, 88, 200, 1e30f};
  for (const Activation activation :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kSigmoid}) {
    Problem p = problem({.cols = 6, .steps = {{step_of(activation), 0}}});
    std::copy_n(ends, 6, p.x.begin());
    run(p);
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
    for (size_t i = 0; i < p.x.size(); i += 16) p.x[i] = NAN;
    run(p, true);
    const u32 strips = (cols + 15) / 16;
    for (u32 row = 0; row < kRows; ++row)
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
  Problem p = problem({.cols = 24, .steps = {{RowStep::kMin, 1}, {RowStep::kMax, -1}}});
  p.x[3] = NAN;
  run(p);
  CHECK(std::isnan(p.out[3]));
  CHECK(std::isnan(from_bf16(p.x_bf16[3])));
  CHECK(!std::isnan(p.out[2]));
  Problem n = problem({.cols = 24, .norm_cols = 24, .out_bf16 = true});
  n.x[3] = NAN;
  run(n);
  for (u32 i = 0; i < 24; ++i) CHECK(std::isnan(n.value(i)));
  CHECK(!std::isnan(n.value(24)));
}

// Stores a value of a table where the layout has it: strips of 16 rows, in each column after column. A column
// has its 16 rows together, and bf16 two columns of each row.
template <class T>
void put(std::vector<char>& table, const PackedShape& s, bool bf16, u32 row, u32 col, T value) {
  const size_t place = bf16 ? (col / 2 * 16 + row % 16) * 2 + col % 2 : col * 16 + row % 16;
  std::memcpy(&table[row / 16 * s.strip_bytes + place * sizeof(T)], &value, sizeof(T));
}

void check_embed(WeightType type, u32 vocab, u32 cols) {
  CAPTURE(static_cast<u32>(type));
  CAPTURE(cols);
  const PackedShape shape = packed_shape(vocab, cols, type);
  std::vector<char> table(shape.bytes);
  std::vector<float> values = random_floats(vocab * cols, cols);
  for (u32 row = 0; row < vocab; ++row)
    for (u32 col = 0; col < cols; ++col) {
      float& v = values[row * cols + col];
      if (type == WeightType::kF32) {
        put(table, shape, false, row, col, v);
      } else if (type == WeightType::kBf16) {
        put(table, shape, true, row, col, to_bf16(v));
        v = from_bf16(to_bf16(v));
      } else {
        put(table, shape, false, row, col, static_cast<uint16_t>(f32_to_f16(v)));
        v = f16_to_f32(f32_to_f16(v));
      }
    }
  std::vector<u32> tokens = {vocab - 1, 0, 17, 5};
  const std::vector<float> norm = random_floats(cols, 3);
  std::vector<float> out(tokens.size() * cols, NAN), sum_squares(tokens.size(), NAN);
  std::vector<uint16_t> x_bf16(out.size());
  const NormOutputs next{global(norm.data()), global(reinterpret_cast<char*>(x_bf16.data())),
                         global(sum_squares.data())};
  const EmbedArgs a{global(tokens.data()), global(table.data()), global(out.data()), next, vocab, cols};
  TestWorker worker;
  for (u32 t = 0; t < tokens.size(); ++t)
    (type == WeightType::kF32    ? mkb_embed_f32
     : type == WeightType::kBf16 ? mkb_embed_bf16
                                 : mkb_embed_f16)(&worker.w, &a, t);
  for (size_t t = 0; t < tokens.size(); ++t) {
    double sum = 0;
    for (u32 k = 0; k < cols; ++k) {
      const float v = out[t * cols + k];
      CHECK(v == values[tokens[t] * cols + k]);
      CHECK(x_bf16[t * cols + k] == to_bf16(v * norm[k]));
      sum += double{v} * v;
    }
    CHECK(sum_squares[t] == doctest::Approx(sum).epsilon(1e-5));
  }
}

TEST_CASE("embedding rows are read from the packed table, and left as the next norm takes them") {
  for (const WeightType type : {WeightType::kF32, WeightType::kBf16, WeightType::kF16})
    for (const u32 cols : {1u, 7u, 16u, 33u, 136u, 1001u}) check_embed(type, 50, cols);
}

TEST_CASE("a token's rows are added by their routing weights to the residual, the first choice first") {
  const u32 tokens = 5;
  for (u32 top_k = 1; top_k <= 9; ++top_k)
    for (const u32 cols : {24u, kExpertSumColumns + 41})
      for (const bool add : {true, false}) {
        const u32 rows = tokens * top_k, parts = (cols + kExpertSumColumns - 1) / kExpertSumColumns;
        const std::vector<float> x = random_floats(rows * cols, 9),
                                 routing_weight = random_floats(rows, top_k),
                                 residual = random_floats(tokens * cols, 10), norm = random_floats(cols, 11);
        std::vector<u32> row(rows);
        for (u32 i = 0; i < rows; ++i) row[i] = (i * 7 + 3) % rows;
        row[0] = ~0u;  // rows that are not there count as the last one
        std::vector<float> out(tokens * cols, NAN), sum_squares(tokens * parts, NAN);
        std::vector<uint16_t> x_bf16(out.size());
        const ExpertSumArgs a{
            global(x.data()),
            global(routing_weight.data()),
            global(row.data()),
            add ? global(residual.data()) : nullptr,
            global(out.data()),
            {global(norm.data()), global(reinterpret_cast<char*>(x_bf16.data())), global(sum_squares.data())},
            cols,
            rows,
            top_k};
        TestWorker worker;
        for (u32 t = 0; t < tokens; ++t)
          for (u32 block = 0; block < parts; ++block) mkb_expert_sum(&worker.w, &a, t, block);
        std::vector<double> squares(sum_squares.size());
        for (u32 i = 0; i < tokens * cols; ++i) {
          const u32 t = i / cols, col = i % cols;
          float sum = 0;
          for (u32 k = t * top_k; k < (t + 1) * top_k; ++k)
            sum = std::fma(routing_weight[k], x[std::min(row[k], rows - 1) * cols + col], sum);
          CHECK(out[i] == (add ? residual[i] + sum : sum));
          CHECK(x_bf16[i] == to_bf16(out[i] * norm[col]));
          squares[t * parts + col / kExpertSumColumns] += double{out[i]} * out[i];
        }
        for (size_t i = 0; i < squares.size(); ++i)
          CHECK(sum_squares[i] == doctest::Approx(squares[i]).epsilon(1e-5));
      }
}

}  // namespace
}  // namespace mk
