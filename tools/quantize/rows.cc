#include "tools/quantize/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/base/half.h"

namespace mkc::quantize {
namespace {

using mkrt::StoredTensor;

// Reads elements from `first` on.
void read_floats(const StoredTensor& t, uint64_t first, std::span<float> to) {
  if (t.dtype == "F32") {
    std::memcpy(to.data(), t.bytes.data() + first * 4, to.size_bytes());
    return;
  }
  const bool f16 = t.dtype == "F16";
  const std::byte* from = t.bytes.data() + first * 2;
  for (size_t i = 0; i < to.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + i * 2, sizeof(bits));
    to[i] = f16 ? mkrt::f16_to_f32(bits) : mkrt::bf16_to_f32(bits);
  }
}

// Reads columns of one stacked matrix from `first` on. Column i goes to row i of `to`.
void read_columns(const StoredTensor& t, const RowsOf& r, uint64_t matrix, uint64_t first,
                  std::span<float> to) {
  std::vector<float> some(to.size() / r.cols);
  for (uint64_t k = 0; k < r.cols; ++k) {
    read_floats(t, (matrix * r.cols + k) * r.stacked + first, some);
    for (size_t i = 0; i < some.size(); ++i) to[i * r.cols + k] = some[i];
  }
}

}  // namespace

RowsOf rows_of(const StoredTensor& tensor) {
  const auto size = [&](size_t dim) { return static_cast<uint64_t>(tensor.shape[dim]); };
  if (tensor.shape.size() == 2) return {size(0), size(1)};
  return {size(0) * size(2), size(1), size(2)};
}

void read_rows(const StoredTensor& tensor, uint64_t first, std::span<float> to) {
  const RowsOf r = rows_of(tensor);
  if (r.stacked == 0) return read_floats(tensor, first * r.cols, to);
  while (!to.empty()) {
    const uint64_t matrix = first / r.stacked, column = first % r.stacked;
    const uint64_t taken = std::min(to.size() / r.cols, r.stacked - column);
    read_columns(tensor, r, matrix, column, to.first(taken * r.cols));
    first += taken;
    to = to.subspan(taken * r.cols);
  }
}

std::string place_of(const StoredTensor& tensor, uint64_t row, uint64_t col) {
  const RowsOf r = rows_of(tensor);
  if (r.stacked == 0) return fmt::format("row {}, column {}", row, col);
  return fmt::format("row {}, column {} of matrix {}", col, row % r.stacked, row / r.stacked);
}

}  // namespace mkc::quantize
