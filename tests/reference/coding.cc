#include "tests/reference/coding.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/reference/model.h"
#include "tests/reference/rounding.h"

namespace reference {
namespace {

using nlohmann::json;
using enum Coding;

constexpr int kBlock = 128;
constexpr double kMostE4m3 = 448, kMostE2m1 = 6, kLeast = 1e-3;
constexpr double kFactor = 1.25 / 512;  // of all scales of NVFP4
constexpr double kE2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
constexpr int kAwqOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};  // AutoAWQ: nibble i has element kAwqOrder[i] of 8

int ceil_of(int value, int by) {
  return (value + by - 1) / by;
}

template <class T>
void append_bytes(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append_number(std::string& bytes, double value, Type type) {
  if (type == Type::kF32) append_bytes(bytes, static_cast<float>(value));
  if (type == Type::kF16) append_bytes(bytes, static_cast<_Float16>(value));
  if (type == Type::kBf16) append_bytes(bytes, bf16_bits(value));
}

const char* type_in_file(Type type) {
  return type == Type::kF32 ? "F32" : type == Type::kF16 ? "F16" : "BF16";
}

bool is_e2m1(Coding c) {
  return c == kMxfp4 || c == kNvfp4 || c == kModelopt;
}
bool is_e4m3(Coding c) {
  return c == kE4m3Rows || c == kE4m3Tensor || c == kE4m3Blocks;
}

int nearest_e2m1(double value) {
  const double magnitude = std::abs(value);
  int best = 0;
  for (int i = 1; i < 8; ++i)
    if (std::abs(kE2m1[i] - magnitude) < std::abs(kE2m1[best] - magnitude)) best = i;
  return best + (std::signbit(value) ? 8 : 0);
}

// Grid is a matrix in blocks that share a scale.
struct Grid {
  const Coder& coder;
  int rows, cols;
  int block_rows = 1, block_cols = cols;

  Grid(const Coder& c, int r, int n) : coder(c), rows(r), cols(n) {
    if (c.coding == kE4m3Blocks) block_rows = block_cols = kBlock;
    if (c.coding == kE4m3Tensor) block_rows = rows;
    if (c.coding == kMxfp4) block_cols = 32;
    if (c.coding == kNvfp4 || c.coding == kModelopt) block_cols = 16;
    if (c.integers() && c.group != 0) block_cols = c.group;
  }
  int grid_rows() const { return ceil_of(rows, block_rows); }
  int grid_cols() const { return ceil_of(cols, block_cols); }
  size_t at(int row, int col) const {
    return static_cast<size_t>(row / block_rows) * static_cast<size_t>(grid_cols()) +
           static_cast<size_t>(col / block_cols);
  }
  size_t element(int row, int col) const {
    return static_cast<size_t>(row) * static_cast<size_t>(cols) + static_cast<size_t>(col);
  }
  int middle() const { return 1 << (coder.bits - 1); }
  // Returns the zero point of an element's group.
  int zero(int row, int col) const {
    return middle() + (coder.zeros ? (row * 5 + col / block_cols * 3) % 7 - 3 : 0);
  }
};

double rounded_scale(const Coder& c, double most) {
  const double scale = std::max(most, kLeast);
  if (is_e4m3(c.coding)) return rounded(scale / kMostE4m3, c.type);
  if (c.coding == kMxfp4) return std::ldexp(1, std::ilogb(scale) - 2);
  if (is_e2m1(c.coding)) return to_e4m3(scale / kMostE2m1 / kFactor) * kFactor;
  // A checkpoint of integers has scales of 16 bits, those of GPTQ and AWQ of f16.
  const double of_integers = scale / ((1 << (c.bits - 1)) - 1);
  return c.coding == kPacked && c.type == Type::kBf16 ? to_bf16(of_integers) : to_f16(of_integers);
}

// Returns words of `n` numbers of 32 / n bits, the first of them lowest.
std::string words_of(int words, int n, const std::function<int(int word, int i)>& number) {
  std::string bytes;
  for (int word = 0; word < words; ++word) {
    uint32_t bits = 0;
    for (int i = 0; i < n; ++i) bits |= static_cast<uint32_t>(number(word, i)) << 32 / n * i;
    append_bytes(bytes, bits);
  }
  return bytes;
}

// Writer makes the tensors of one matrix.
struct Writer {
  const Grid& g;
  const std::string& name;
  const std::vector<double>&w, &scales;
  std::vector<Coder::Tensor> out{};
  Coding coding = g.coder.coding;
  std::string module = name.substr(0, name.rfind('.') + 1);

  double quotient(int row, int col) const { return w[g.element(row, col)] / scales[g.at(row, col)]; }
  int integer(int row, int col) const {
    return static_cast<int>(std::nearbyint(quotient(row, col))) + g.zero(row, col);
  }

  void e4m3() {
    std::string bytes;
    for (int row = 0; row < g.rows; ++row)
      for (int col = 0; col < g.cols; ++col) append_bytes(bytes, e4m3_bits(to_e4m3(quotient(row, col))));
    out.push_back({name, "F8_E4M3", {g.rows, g.cols}, bytes});
    bytes.clear();
    for (const double scale : scales) append_number(bytes, scale, g.coder.type);
    std::vector<int> shape{g.grid_rows(), g.grid_cols()};
    if (coding == kE4m3Tensor) shape = {1};
    out.push_back(
        {name + (coding == kE4m3Blocks ? "_scale_inv" : "_scale"), type_in_file(g.coder.type), shape, bytes});
  }

  void e2m1() {
    std::string codes, groups, factor;
    for (int row = 0; row < g.rows; ++row)
      for (int col = 0; col < g.cols; col += 2)
        append_bytes(codes, static_cast<uint8_t>(nearest_e2m1(quotient(row, col)) |
                                                 nearest_e2m1(quotient(row, col + 1)) << 4));
    for (const double scale : scales)
      append_bytes(groups, coding == kMxfp4 ? static_cast<uint8_t>(std::ilogb(scale) + 127)
                                            : e4m3_bits(scale / kFactor));
    out.push_back({name + (coding == kModelopt ? "" : "_packed"), "U8", {g.rows, g.cols / 2}, codes});
    out.push_back({name + "_scale", coding == kMxfp4 ? "U8" : "F8_E4M3", {g.rows, g.grid_cols()}, groups});
    if (coding == kMxfp4) return;
    append_bytes(factor, static_cast<float>(coding == kModelopt ? kFactor : 1 / kFactor));
    if (coding == kModelopt) return out.push_back({name + "_scale_2", "F32", {}, factor});
    out.push_back({name + "_global_scale", "F32", {1}, factor});
  }

  void packed() {
    const int n = 32 / g.coder.bits, words = g.cols / n;
    out.push_back(
        {name + "_packed", "I32", {g.rows, words}, words_of(g.rows * words, n, [&](int word, int i) {
           return integer(word / words, word % words * n + i);
         })});
    std::string shape, numbers;
    for (const int64_t size : {g.rows, g.cols}) append_bytes(shape, size);
    const Type type = g.coder.type == Type::kBf16 ? Type::kBf16 : Type::kF16;
    for (const double scale : scales) append_number(numbers, scale, type);
    out.push_back({name + "_shape", "I64", {2}, shape});
    out.push_back({name + "_scale", type_in_file(type), {g.rows, g.grid_cols()}, numbers});
    if (!g.coder.zeros) return;
    const int groups = g.grid_cols(), rows = ceil_of(g.rows, n);
    out.push_back(
        {name + "_zero_point", "I32", {rows, groups}, words_of(rows * groups, n, [&](int word, int i) {
           const int row = word / groups * n + i;
           return row < g.rows ? g.zero(row, word % groups * g.block_cols) : 0;
         })});
  }

  // The tensors of GPTQ and AWQ have rows where others have columns.
  void by_columns() {
    const int n = 32 / g.coder.bits, groups = g.grid_cols(), words = g.rows / n;
    const auto place = [&](int i) { return coding == kAwq ? kAwqOrder[i] : i; };
    const int less = coding == kGptq ? 1 : 0;
    if (coding == kAwq)
      out.push_back(
          {module + "qweight", "I32", {g.cols, words}, words_of(g.cols * words, n, [&](int word, int i) {
             return integer(word % words * n + place(i), word / words);
           })});
    else
      out.push_back({module + "qweight",
                     "I32",
                     {g.cols / n, g.rows},
                     words_of(g.cols / n * g.rows, n, [&](int word, int i) {
                       return integer(word % g.rows, word / g.rows * n + i);
                     })});
    out.push_back(
        {module + "qzeros", "I32", {groups, words}, words_of(groups * words, n, [&](int word, int i) {
           return g.zero(word % words * n + place(i), word / words * g.block_cols) - less;
         })});
    std::string numbers, order;
    for (int group = 0; group < groups; ++group)
      for (int row = 0; row < g.rows; ++row)
        append_number(numbers, scales[g.at(row, group * g.block_cols)], Type::kF16);
    out.push_back({module + "scales", "F16", {groups, g.rows}, numbers});
    if (coding == kAwq) return;
    for (int32_t col = 0; col < g.cols; ++col) append_bytes(order, col / g.block_cols);
    out.push_back({module + "g_idx", "I32", {g.cols}, order});
  }
};

json compressed(const char* format, const json& weights) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"config_groups",
           {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}, {"input_activations", nullptr}}}}},
          {"quantization_status", "compressed"},
          {"ignore", {"lm_head"}}};
}

}  // namespace

const char* coding_name(Coding coding) {
  static constexpr const char* kNames[] = {"none",   "e4m3 rows", "e4m3 tensor", "e4m3 blocks",
                                           "packed", "gptq",      "gptq_v2",     "awq",
                                           "mxfp4",  "nvfp4",     "modelopt"};
  return kNames[static_cast<size_t>(coding)];
}

bool Coder::integers() const {
  return coding != kNone && !is_e4m3(coding) && !is_e2m1(coding);
}

int Coder::multiple() const {
  if (is_e2m1(coding)) return coding == kMxfp4 ? 32 : 16;
  return !integers() ? 1 : group == 0 ? 8 : group;
}

std::vector<double> Coder::round(std::vector<double>& w, int rows, int cols) const {
  const Grid g(*this, rows, cols);
  std::vector<double> scales(static_cast<size_t>(g.grid_rows()) * static_cast<size_t>(g.grid_cols()));
  const auto each = [&](const auto& visit) {
    for (int row = 0; row < rows; ++row)
      for (int col = 0; col < cols; ++col)
        visit(w[g.element(row, col)], scales[g.at(row, col)], g.zero(row, col));
  };
  each([](double v, double& scale, int) { scale = std::max(scale, std::abs(v)); });
  for (double& scale : scales) scale = rounded_scale(*this, scale);
  each([&](double& v, double scale, int zero) {
    const double quotient = v / scale;
    if (is_e4m3(coding)) v = to_e4m3(quotient) * scale;
    if (is_e2m1(coding)) v = std::copysign(kE2m1[nearest_e2m1(quotient) % 8], quotient) * scale;
    if (integers())
      v = (std::clamp(std::nearbyint(quotient) + zero, 0.0, 2.0 * g.middle() - 1) - zero) * scale;
  });
  return scales;
}

std::vector<Coder::Tensor> Coder::tensors(const std::string& name, const std::vector<double>& w,
                                          const std::vector<double>& scales, int rows, int cols) const {
  const Grid grid(*this, rows, cols);
  Writer writer{grid, name, w, scales};
  if (is_e4m3(coding))
    writer.e4m3();
  else if (is_e2m1(coding))
    writer.e2m1();
  else
    coding == kPacked ? writer.packed() : writer.by_columns();
  return writer.out;
}

std::string Coder::config() const {
  const bool symmetric = !zeros;
  json weights{{"num_bits", bits}, {"type", "int"}, {"strategy", "channel"}, {"symmetric", symmetric}};
  if (group != 0) weights["strategy"] = "group", weights["group_size"] = group;
  switch (coding) {
    case kNone:
      break;
    case kE4m3Rows:
      return compressed("float-quantized", {{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}})
          .dump();
    case kE4m3Tensor:
      return json{{"quant_method", "fp8"}, {"fmt", "e4m3"}, {"activation_scheme", "dynamic"}}.dump();
    case kE4m3Blocks:
      return json{{"quant_method", "fp8"},
                  {"fmt", "e4m3"},
                  {"activation_scheme", "dynamic"},
                  {"weight_block_size", {kBlock, kBlock}}}
          .dump();
    case kPacked:
      return compressed("pack-quantized", weights).dump();
    case kGptq:
    case kGptqV2:
      return json{{"quant_method", "gptq"},
                  {"bits", bits},
                  {"group_size", group == 0 ? -1 : group},
                  {"desc_act", false},
                  {"sym", symmetric},
                  {"checkpoint_format", coding == kGptq ? "gptq" : "gptq_v2"}}
          .dump();
    case kAwq:
      return json{{"quant_method", "awq"},
                  {"bits", 4},
                  {"group_size", group},
                  {"zero_point", zeros},
                  {"version", "gemm"}}
          .dump();
    case kMxfp4:
      return compressed("mxfp4-pack-quantized",
                        {{"num_bits", 4}, {"type", "float"}, {"strategy", "group"}, {"group_size", 32}})
          .dump();
    case kNvfp4:
      return compressed(
                 "nvfp4-pack-quantized",
                 {{"num_bits", 4}, {"type", "float"}, {"strategy", "tensor_group"}, {"group_size", 16}})
          .dump();
    case kModelopt:
      return json{{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}.dump();
  }
  return "null";
}

}  // namespace reference
