// These tests compare products on the processor with float64 loops, for formats whose groups of columns have
// scales.
#include "tests/unit/device/coded.h"
#include "tests/unit/processor/product.h"

namespace mk {
namespace {

// Returns a packed matrix of random codes. Scales differ between rows and groups of columns.
Matrix grouped_matrix(WeightType type, uint64_t rows, uint64_t cols) {
  Matrix m{packed_shape(rows, cols, type), type, {}, {}};
  const WeightFormat& format = m.shape.format;
  const uint64_t groups = (cols + format.group_cols - 1) / format.group_cols;
  std::mt19937 random(static_cast<u32>(rows * cols));
  std::vector<char> codes(rows * cols * format.bits / 8);
  std::vector<float> of_rows(rows, 1), of_groups(rows * groups);
  std::vector<uint8_t> zeros(rows * groups);
  for (uint64_t row = 0; row < rows; ++row) {
    if (format.scale_bytes != 0) of_rows[row] = std::ldexp(1.0f, -static_cast<int>(row % 3));
    for (uint64_t group = 0; group < groups; ++group) {
      char stored[sizeof(float)];
      const float scale = 0.021f * static_cast<float>(1 + (row / format.group_rows + group) % 5);
      of_groups[row * groups + group] = put_scale_of(format.group_scale, scale, stored);
      zeros[row * groups + group] = static_cast<uint8_t>(zero_of(format, row, group));
    }
    for (uint64_t col = 0; col < cols; ++col) {
      const uint64_t at = row * cols + col, group = row * groups + col / format.group_cols;
      const bool e4m3 = format.code == CodeType::kFloat;
      const uint32_t code = e4m3 ? random() % 2 * 128 + random() % 0x58 : random() % (1u << format.bits);
      const uint64_t bit = at * format.bits;
      codes[bit / 8] = static_cast<char>(codes[bit / 8] | static_cast<char>(code << bit % 8));
      const double number{number_of(format, code, zeros[group])};
      m.value.push_back(number * of_rows[row] * of_groups[group]);
    }
  }
  m.packed.resize(m.shape.bytes);
  const MkPack pack{reinterpret_cast<uint64_t>(codes.data()),
                    reinterpret_cast<uint64_t>(of_rows.data()),
                    reinterpret_cast<uint64_t>(of_groups.data()),
                    reinterpret_cast<uint64_t>(zeros.data()),
                    reinterpret_cast<uint64_t>(m.packed.data()),
                    0,
                    rows,
                    cols,
                    rows,
                    1,
                    0,
                    0,
                    static_cast<uint64_t>(type)};
  for (const u32 part : {1u, 0u, 2u}) pack_rows_of(global(&pack), part, 3);
  return m;
}

std::vector<float> product_of(const Matrix& m, const X& x, u32 tokens, u32 parts = 1) {
  Out out(tokens * m.shape.rows);
  std::vector<float> sums(m.shape.strips * kStripRows * tokens * kKSlices);
  AllArgs a = make_args(m, x, tokens);
  a.out = global(out.data());
  a.sums = global(sums.data());
  a.streamed_split_k = a.split_k = parts;
  a.splits = parts > 1;
  run(m, a, 3);
  return {out.values.begin(), out.values.begin() + static_cast<ptrdiff_t>(out.size)};
}

TEST_CASE("products of groups agree with float64 and do not depend on tokens or parts") {
  for (const FormatBodies& format : kGroupedFormats)
    for (const uint64_t rows : {16u, 40u})
      for (const uint64_t cols : {64u, 512u, 1536u}) {
        const Matrix m = grouped_matrix(format.type, rows, cols);
        CAPTURE(m.shape.format.name);
        CAPTURE(cols);
        for (const Input input : kInputs) {
          constexpr u32 kMost = 21;
          const X x(input, kMost, static_cast<u32>(cols));
          const std::vector<float> all = product_of(m, x, kMost);
          for (const u32 tokens : {1u, 2u, 3u, 5u, 8u, 17u}) {
            CAPTURE(tokens);
            const std::vector<float> some = product_of(m, x, tokens);
            CHECK(std::equal(some.begin(), some.end(), all.begin()));
          }
          CHECK(product_of(m, x, kMost, 4) == all);
          CHECK(worst_error(m, x, all_rows(kMost), all.data(),
                            [](u32, const std::vector<Value>& row) { return row; }) < 1);
        }
      }
}

}  // namespace
}  // namespace mk
