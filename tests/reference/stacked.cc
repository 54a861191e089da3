#include "tests/reference/stacked.h"

namespace reference {
namespace {

constexpr int kScaleCols = 32;  // columns that share a scale

// Returns [n, cols, rows] of [n, rows, cols].
std::vector<double> transposed(const std::vector<double>& w, int n, int rows, int cols) {
  std::vector<double> out;
  out.reserve(w.size());
  for (int i = 0; i < n; ++i)
    for (int col = 0; col < cols; ++col)
      for (int row = 0; row < rows; ++row)
        out.push_back(w[static_cast<size_t>((i * rows + row) * cols + col)]);
  return out;
}

}  // namespace

std::vector<double> round_stacked(const Coder& coder, std::vector<double>& w, const std::vector<int>& shape) {
  std::vector<double> rows = transposed(w, shape[0], shape[1], shape[2]);
  const std::vector<double> scales = coder.round(rows, shape[0] * shape[2], shape[1]);
  w = transposed(rows, shape[0], shape[2], shape[1]);
  return scales;
}

std::vector<Coder::Tensor> stacked_tensors(const Coder& coder, const std::string& name,
                                           const std::vector<double>& w, const std::vector<double>& scales,
                                           const std::vector<int>& shape) {
  const std::vector<double> rows = transposed(w, shape[0], shape[1], shape[2]);
  std::vector<Coder::Tensor> out = coder.tensors(name, rows, scales, shape[0] * shape[2], shape[1]);
  out[0].name = name + "_blocks", out[0].shape = {shape[0], shape[2], shape[1] / kScaleCols, kScaleCols / 2};
  out[1].name = name + "_scales", out[1].shape = {shape[0], shape[2], shape[1] / kScaleCols};
  return out;
}

}  // namespace reference
