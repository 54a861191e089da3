// These tests compare products on the processor with float64 loops, for all formats of weights and of rows.
#include "tests/unit/processor/product.h"

#include <numbers>

namespace mk {
namespace {

constexpr uint32_t kRows[] = {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 70};
constexpr uint32_t kCols[] = {1,   2,   3,   17,  64,  100, 127, 128,  129,  130,
                              255, 256, 257, 300, 512, 513, 700, 1024, 1100, 2048};
constexpr uint32_t kTokens[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                12, 13, 14, 15, 16, 17, 18, 19, 20, 64, 256};

// Checks a product with what is set of bias and residual.
void check_product(const Matrix& m, Input input, uint32_t tokens, bool with_bias, bool with_residual) {
  const auto rows = static_cast<uint32_t>(m.shape.rows), cols = static_cast<uint32_t>(m.shape.cols);
  CAPTURE(m.shape.format.name);
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(tokens);
  CAPTURE(static_cast<int>(input));
  const X x(input, tokens, cols);
  const std::vector<float> bias = random_floats(rows, 4), residual = random_floats(size_t{tokens} * rows, 5);
  Out out(residual.size()), halves(residual.size());
  AllArgs a = make_args(m, x, tokens);
  a.out = global(out.data());
  if (with_bias) a.bias = global(bias.data());
  if (with_residual) a.residual = global(residual.data());
  run(m, a, 1 + rows % 5);
  const double error =
      worst_error(m, x, all_rows(tokens), out.data(), [&](u32 token, std::vector<Value> row) {
        for (uint32_t r = 0; r < rows; ++r) {
          if (with_bias) row[r] = row[r] + double{bias[r]};
          if (with_residual) row[r] = row[r] + double{residual[size_t{token} * rows + r]};
        }
        return row;
      });
  CHECK(error < 1);
  a.out = global(halves.data());
  a.out_bf16 = 1;
  run(m, a);
  CHECK(rounds_to(out.data(), halves.halves(), out.size));
}

TEST_CASE("products agree with float64 for each format, kind of rows and number of tokens") {
  std::mt19937 rng(1);
  for (const FormatBodies& format : kFormats)
    for (const Input input : kInputs)
      for (const uint32_t tokens : kTokens)
        for (int i = 0; i < (tokens < 64 ? 3 : 1); ++i) {
          const uint32_t rows = kRows[rng() % std::size(kRows)], cols = kCols[rng() % std::size(kCols)];
          const bool bias = rng() % 2 != 0, residual = rng() % 2 != 0;
          check_product(pack_matrix({make_tensor(format.type, rows, cols, 7)}), input, tokens, bias,
                        residual);
        }
}

TEST_CASE("products agree with float64 for each number of rows and columns") {
  for (const FormatBodies& format : kFormats) {
    for (uint32_t rows = 1; rows <= 70; ++rows)
      check_product(pack_matrix({make_tensor(format.type, rows, 131, 7)}), Input::kF32, 1 + rows % 9, true,
                    false);
    for (const uint32_t cols : kCols)
      for (const Input input : kInputs)
        check_product(pack_matrix({make_tensor(format.type, 19, cols, 7)}), input, 3, false, true);
  }
}

TEST_CASE("rows of several sources are packed in turns, in pieces and parts of any size") {
  for (const FormatBodies& format : kFormats)
    for (const auto& [sources, group] : {std::pair{2u, 8u}, {4u, 4u}, {3u, 16u}, {16u, 1u}})
      for (const uint64_t piece : {1u, 7u, 1000u}) {
        std::vector<Tensor> tensors;
        for (u32 i = 0; i < sources; ++i) tensors.push_back(make_tensor(format.type, 3 * group, 150, 10 + i));
        check_product(pack_matrix(tensors, group, piece), Input::kF32, 3, true, true);
      }
}

TEST_CASE("the norm outputs of a row are its rounded values and the sums of squares of strips") {
  for (const FormatBodies& format : kFormats)
    for (const uint32_t rows : {1u, 16u, 33u, 70u})
      for (const uint32_t tokens : {1u, 3u, 17u}) {
        const Matrix m = pack_matrix({make_tensor(format.type, rows, 200, 7)});
        const X x(Input::kScaled, tokens, 200);
        std::vector<float> norm = random_floats(rows, 6), residual = random_floats(size_t{tokens} * rows, 5);
        norm.insert(norm.end(), 16, NAN);
        Out out(residual.size()), halves((residual.size() + 1) / 2), squares(tokens * m.shape.strips);
        AllArgs a = make_args(m, x, tokens);
        a.out = global(out.data());
        a.residual = global(residual.data());
        a.norm_outputs = {global(norm.data()), global(reinterpret_cast<char*>(halves.data())),
                          global(squares.data())};
        run(m, a, 2);
        for (uint32_t t = 0; t < tokens; ++t)
          for (uint32_t strip = 0; strip < a.strips; ++strip) {
            double sum = 0;
            for (uint32_t r = strip * 16; r < std::min(rows, strip * 16 + 16); ++r) {
              const float v = out.data()[t * rows + r];
              sum += double{v} * double{v};
              CHECK(halves.halves()[t * rows + r] == to_bf16(v * norm[r]));
            }
            CHECK(double{squares.data()[t * a.strips + strip]} == doctest::Approx(sum).epsilon(1e-6));
          }
      }
}

// Applies a gate: SiLU (Elfwing et al. 2017), GELU by erf or tanh (Hendrycks and Gimpel 2016), or the
// logistic function.
double gate_of(Activation gate, double v) {
  if (gate == Activation::kGelu) return v / 2 * (1 + std::erf(v / std::sqrt(2.0)));
  if (gate == Activation::kGeluTanh)
    return v / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
  return (gate == Activation::kSigmoid ? 1 : v) / (1 + std::exp(-v));
}

// Checks a gate. One column gives exact sums of any size, so that the gate's error alone is left.
void check_gate(WeightType type, Activation gate, uint32_t gates, uint32_t out_cols, uint32_t cols,
                uint32_t tokens) {
  CAPTURE(static_cast<int>(type));
  CAPTURE(static_cast<int>(gate));
  CAPTURE(out_cols);
  CAPTURE(cols);
  CAPTURE(tokens);
  const Matrix m =
      pack_matrix({make_tensor(type, out_cols, cols, 7), make_tensor(type, out_cols, cols, 8)}, 8);
  X x(cols == 1 ? Input::kF32 : Input::kScaled, tokens, cols);
  for (float& v : x.f32s) v *= cols == 1 ? 20 : 1;
  Out out(size_t{tokens} * out_cols), halves(out.size);
  AllArgs a = make_args(m, x, tokens);
  a.gate = gate, a.gates = gates, a.out_cols = out_cols;
  a.out = global(out.data());
  run(m, a, 3);
  const double error =
      worst_error(m, x, all_rows(tokens), out.data(), [&](u32, const std::vector<Value>& row) {
        std::vector<Value> want(out_cols);
        for (uint32_t i = 0; i < out_cols; ++i) {
          const Value g = row[i / 8 * 16 + i % 8], u = row[i / 8 * 16 + 8 + i % 8];
          const double v = gate_of(gate, g.value);
          want[i] = {v * u.value, 1.2 * g.magnitude * std::abs(u.value) + std::abs(v) * u.magnitude};
        }
        return want;
      });
  CHECK(error < 1);
  a.out = global(halves.data()), a.out_bf16 = 1;
  run(m, a);
  CHECK(rounds_to(out.data(), halves.halves(), out.size));
}

TEST_CASE("gate and up rows of a strip give gate(g) * u") {
  for (const FormatBodies& format : kFormats)
    for (const Activation gate :
         {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh, Activation::kSigmoid})
      for (const uint32_t gates : {1u << static_cast<uint32_t>(gate), 0b11111u})
        for (const uint32_t out_cols : {8u, 24u, 64u})
          for (const uint32_t tokens : {1u, 3u, 9u})
            for (const uint32_t cols : {1u, 130u})
              check_gate(format.type, gate, gates, out_cols, cols, tokens);
}

// Checks the best logit of each strip. `nans` lists weight rows whose products are NaN.
void check_best(WeightType type, uint32_t tokens, const std::vector<uint32_t>& nans) {
  constexpr uint32_t kLogits = 100, kWidth = 70;
  Tensor t = make_tensor(type, kLogits, kWidth, 7);
  std::fill(t.scales.begin(), t.scales.end(), 0.002f);
  for (uint64_t row = 0; row < kLogits; ++row)  // rows repeat, so that the greatest logits tie
    for (uint64_t col = 0; col < kWidth; ++col)
      put_element(t, row * kWidth + col, static_cast<float>(t.value[row * 7 % 10 * kWidth + col]));
  for (const uint32_t row : nans) put_element(t, row * kWidth, NAN);
  const Matrix m = pack_matrix({t});
  const X x(Input::kF32, tokens, kWidth);
  Out out(size_t{tokens} * kLogits), best(tokens * m.shape.strips), index(best.size);
  AllArgs a = make_args(m, x, tokens);
  a.out = global(out.data());
  a.best_value = global(best.data());
  a.best_index = global(reinterpret_cast<u32*>(index.data()));
  run(m, a, 3);
  uint32_t ties = 0;
  for (uint32_t strip = 0; strip < tokens * a.strips; ++strip) {
    const float* row = &out.data()[strip / a.strips * kLogits];
    const uint32_t first = strip % a.strips * 16, end = std::min(kLogits, first + 16);
    uint32_t greatest = first;
    for (uint32_t id = first; id < end; ++id)
      if (plain_logit(row[id]) > plain_logit(row[greatest])) greatest = id;
    for (uint32_t id = greatest + 1; id < end; ++id) ties += row[id] == row[greatest];
    CHECK(std::bit_cast<u32>(index.data()[strip]) == greatest);
    CHECK(plain_logit(best.data()[strip]) == plain_logit(row[greatest]));
  }
  CHECK(ties > 0);
}

TEST_CASE("each strip's best candidate is the first of its greatest logits, and no NaN but where all are") {
  for (const FormatBodies& format : kFormats)
    for (const uint32_t tokens : {1u, 8u, 37u}) {
      check_best(format.type, tokens, {});
      check_best(format.type, tokens,
                 {16, 33, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79});
    }
}

TEST_CASE("the last row of each request is gathered, with its norm or its sums of squares") {
  for (const FormatBodies& format : kFormats)
    for (const Input input : kInputs)
      for (const std::vector<u32>& q_len :
           {std::vector<u32>{5}, {1, 1, 1}, {3, 1, 7, 2}, {1, 1, 30, 1, 1, 1, 1, 1, 9}}) {
        CAPTURE(static_cast<int>(input));
        const auto requests = static_cast<u32>(q_len.size());
        std::vector<u32> last(requests);
        std::inclusive_scan(q_len.begin(), q_len.end(), last.begin());
        for (u32& row : last) --row;
        const Matrix m = pack_matrix({make_tensor(format.type, 40, 300, 7)});
        const X x(input, last.back() + 1, 300);
        Out out(size_t{requests} * 40);
        AllArgs a = make_args(m, x, requests);
        a.gather_rows = 1, a.q_len = q_len;
        a.out = global(out.data());
        run(m, a);
        const auto same = [](u32, const std::vector<Value>& row) { return row; };
        CHECK(worst_error(m, x, last, out.data(), same) < 1);
        a.tokens = x.rows;  // all rows have logits
        Out all(size_t{x.rows} * 40);
        a.out = global(all.data());
        run(m, a);
        CHECK(worst_error(m, x, all_rows(x.rows), all.data(), same) < 1);
      }
}

}  // namespace
}  // namespace mk
