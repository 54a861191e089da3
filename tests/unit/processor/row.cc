// These tests run tasks that compute rows on the processor, and compare them with float64: row grids, embed
// and expert_sum.
#include "runtime/base/half.h"
#include "tests/unit/device/row_problem.h"
#include "tests/unit/processor/worker.h"

namespace mk {

void run_row(RowProblem& p, bool best) {
  RowArgs a = row_args(p, best);
  a.first_row = shared(p.first_row.data()), a.q_len = shared(p.q_len.data());
  TestWorker worker;
  for (u32 row = 0; row < kProblemRows; ++row)
    for (u32 block = 0; block < p.blocks(); ++block) mkb_row(&worker.w, &a, row, block);
}

namespace {

TEST_CASE("a row task gathers the last row of each request, and stores bf16") {
  for (const u32 cols : {1u, 15u, 80u, 1001u}) {
    check_row(row_problem({.cols = cols, .gather = true}));
    check_row(row_problem({.cols = cols, .out_bf16 = true, .gather = true}));
    check_row(row_problem({.cols = cols, .norm_cols = cols, .out_bf16 = true, .gather = true}));
  }
  check_row(row_problem({.cols = 240, .norm_cols = 24, .head_dim = 24, .out_bf16 = true, .gather = true}));
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
