#include "tests/reference/coding.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/reference/model.h"
#include "tests/reference/rounding.h"

namespace reference {
namespace {

using nlohmann::json;

constexpr int kBlock = 128;
constexpr double kMostE4m3 = 448, kLeast = 1e-3;

int ceil_of(int value, int by) {
  return (value + by - 1) / by;
}

size_t index_of(int row, int cols, int col) {
  return static_cast<size_t>(row) * static_cast<size_t>(cols) + static_cast<size_t>(col);
}

}  // namespace

const char* coding_name(Coding coding) {
  static constexpr const char* kNames[] = {"none", "e4m3 rows", "e4m3 tensor", "e4m3 blocks", "int4"};
  return kNames[static_cast<size_t>(coding)];
}

const char* Coder::scales_suffix() const {
  return coding == Coding::kE4m3Blocks ? "_scale_inv" : "_scale";
}

Coder::Blocks Coder::blocks(int rows, int cols) const {
  if (coding == Coding::kE4m3Blocks) return {kBlock, kBlock};
  if (coding == Coding::kE4m3Tensor) return {rows, cols};
  return {1, coding == Coding::kInt4 && group != 0 ? group : cols};
}

std::vector<int> Coder::scales_shape(int rows, int cols) const {
  const Blocks b = blocks(rows, cols);
  if (coding == Coding::kE4m3Tensor) return {1};
  return {ceil_of(rows, b.rows), ceil_of(cols, b.cols)};
}

std::vector<double> Coder::round(std::vector<double>& w, int rows, int cols) const {
  const Blocks b = blocks(rows, cols);
  const int grid_cols = ceil_of(cols, b.cols);
  std::vector<double> scales(index_of(ceil_of(rows, b.rows), grid_cols, 0));
  const auto scale_of = [&](int row, int col) -> double& {
    return scales[index_of(row / b.rows, grid_cols, col / b.cols)];
  };
  const auto each = [&](const auto& visit) {
    for (int row = 0; row < rows; ++row)
      for (int col = 0; col < cols; ++col) visit(w[index_of(row, cols, col)], scale_of(row, col));
  };
  each([](double v, double& scale) { scale = std::max(scale, std::abs(v)); });
  const double most = coding == Coding::kInt4 ? 7 : kMostE4m3;
  for (double& scale : scales) scale = rounded(std::max(scale, kLeast) / most, type);
  // A checkpoint of 4 bits has scales of 16 bits.
  for (double& scale : scales)
    if (coding == Coding::kInt4 && type == Type::kF32) scale = to_f16(scale);
  each([&](double& v, double scale) {
    v = (coding == Coding::kInt4 ? std::clamp(std::nearbyint(v / scale), -8.0, 7.0) : to_e4m3(v / scale)) *
        scale;
  });
  return scales;
}

std::vector<Coder::Tensor> Coder::codes(const std::vector<double>& w, const std::vector<double>& scales,
                                        int rows, int cols) const {
  const Blocks b = blocks(rows, cols);
  const int grid_cols = ceil_of(cols, b.cols);
  const auto quotient = [&](int row, int col) {
    return w[index_of(row, cols, col)] / scales[index_of(row / b.rows, grid_cols, col / b.cols)];
  };
  std::string bytes;
  if (coding != Coding::kInt4) {
    for (int row = 0; row < rows; ++row)
      for (int col = 0; col < cols; ++col)
        bytes.push_back(static_cast<char>(e4m3_bits(to_e4m3(quotient(row, col)))));
    return {{"", "F8_E4M3", {rows, cols}, bytes}};
  }
  for (int row = 0; row < rows; ++row)
    for (int col = 0; col < cols; col += 2) {
      const auto code = [&](int c) { return static_cast<int>(std::nearbyint(quotient(row, c))) + 8; };
      bytes.push_back(static_cast<char>(code(col) | code(col + 1) << 4));
    }
  std::string shape;
  for (const int64_t size : {rows, cols}) shape.append(reinterpret_cast<const char*>(&size), sizeof(size));
  return {{"_packed", "I32", {rows, cols / 8}, bytes}, {"_shape", "I64", {2}, shape}};
}

std::string Coder::config() const {
  if (coding == Coding::kE4m3Tensor || coding == Coding::kE4m3Blocks) {
    json c{{"quant_method", "fp8"}, {"fmt", "e4m3"}, {"activation_scheme", "dynamic"}};
    if (coding == Coding::kE4m3Blocks) c["weight_block_size"] = {kBlock, kBlock};
    return c.dump();
  }
  json weights{{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}, {"symmetric", true}};
  if (coding == Coding::kInt4) {
    weights["num_bits"] = 4, weights["type"] = "int";
    if (group != 0) weights["strategy"] = "group", weights["group_size"] = group;
  }
  return json{
      {"quant_method", "compressed-tensors"},
      {"format", coding == Coding::kInt4 ? "pack-quantized" : "float-quantized"},
      {"config_groups",
       {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}, {"input_activations", nullptr}}}}},
      {"ignore", {"lm_head"}}}
      .dump();
}

}  // namespace reference
