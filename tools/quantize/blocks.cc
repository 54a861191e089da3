#include "tools/quantize/blocks.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "runtime/base/half.h"
#include "tools/quantize/code_types.h"

namespace mkc::quantize {
namespace {

constexpr int kClips = 32;
constexpr float kClipStep = 1.0f / 64;
constexpr float kMinOfRow = 0x1p-24f;
constexpr size_t kLanes = 16;  // sums that a vector instruction may keep apart

using Block = std::span<const float>;

float max_magnitude(Block block) {
  float max = 0;
  for (const float w : block) max = std::max(max, std::fabs(w));
  return max;
}

// Returns a power of 2 that brings a block's greatest magnitude near 1. Squares of errors then fit in f32.
float unit_of(float max) {
  return std::ldexp(1.0f, -std::clamp(std::ilogb(max), -126, 126));
}

// Returns the squared error of a block times `unit`, added up in an order that does not depend on the
// machine.
template <class Code>
float squared_error(Block block, float scale, float unit) {
  const float inverse = 1 / scale;
  std::array<float, kLanes> sums{};
  const auto add = [&](size_t i, float& sum) {
    const float error = (block[i] - Code::round(block[i] * inverse) * scale) * unit;
    sum += error * error;
  };
  size_t i = 0;
  for (; i + kLanes <= block.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) add(i + lane, sums[lane]);
  for (; i < block.size(); ++i) add(i, sums[i % kLanes]);
  float sum = 0;
  for (const float lane : sums) sum += lane;
  return sum;
}

// Best keeps the scale of the least error. It keeps the first of equal ones.
struct Best {
  float scale = 0, error = INFINITY;
  void offer(float candidate, float with) {
    if (scale == 0 || with < error) scale = candidate, error = with;
  }
};

float to_bf16(float x) {
  return mkrt::bf16_to_f32(mkrt::f32_to_bf16(x));
}

template <class Code>
float find_bf16_scale(Block block, float min) {
  const float max = max_magnitude(block), whole = max / Code::kMax;
  if (whole == 0) return min;
  const float unit = unit_of(max);
  Best best;
  for (int i = 0; i <= kClips; ++i) {
    const float scale = std::max(to_bf16(whole * (1 - static_cast<float>(i) * kClipStep)), min);
    best.offer(scale, squared_error<Code>(block, scale, unit));
  }
  return best.scale;
}

// OCP Microscaling Formats 1.0, section 6.3: the power of 2 of the greatest magnitude, less that of kMax.
template <class Code>
float find_power_scale(Block block) {
  const float max = max_magnitude(block);
  if (max == 0) return 1;
  const float unit = unit_of(max);
  const int exponent = std::ilogb(max) - std::ilogb(Code::kMax);
  Best best;
  for (const int e : {exponent, exponent + 1, exponent - 1}) {
    const float scale = std::ldexp(1.0f, std::clamp(e, -126, 127));
    best.offer(scale, squared_error<Code>(block, scale, unit));
  }
  return best.scale;
}

void put_scale(const Format& format, float scale, uint8_t* to) {
  if (format.scale == ScaleType::kE8m0) {
    *to = static_cast<uint8_t>(std::ilogb(scale) + 127);
    return;
  }
  const auto bits = static_cast<uint16_t>(mkrt::f32_to_bf16(scale));
  std::memcpy(to, &bits, sizeof(bits));
}

// RowsOfCodes is the quantization of some rows with codes of one type.
template <class Code>
struct RowsOfCodes {
  const Format& format;
  std::span<const float> weights;
  uint64_t cols;
  uint64_t rows = weights.size() / cols;
  uint64_t width = format.width(cols), blocks = format.blocks(cols);
  QuantizedRows out{};
  std::vector<float> gathered{};  // of a block of several rows

  QuantizedRows quantize() {
    out.codes.resize(weights.size() * Code::kBits / 8);
    const uint64_t block_rows = (rows + format.block_rows - 1) / format.block_rows;
    out.scales.resize(block_rows * blocks * format.scale_bytes());
    for (uint64_t block_row = 0; block_row < block_rows; ++block_row) {
      const float min = min_scale(block_row);
      for (uint64_t block = 0; block < blocks; ++block) add_block(block_row, block, min);
    }
    return std::move(out);
  }

  uint64_t rows_of(uint64_t block_row) const {
    return std::min(format.block_rows, rows - block_row * format.block_rows);
  }

  float min_scale(uint64_t block_row) const {
    const Block row = weights.subspan(block_row * format.block_rows * cols, rows_of(block_row) * cols);
    return std::max(to_bf16(max_magnitude(row) / Code::kMax * kMinOfRow), FLT_MIN);
  }

  // Returns a block's weights in a row.
  Block gather(uint64_t block_row, uint64_t block) {
    const uint64_t first = block * width, count = std::min(width, cols - first);
    const float* from = weights.data() + block_row * format.block_rows * cols + first;
    if (format.block_rows == 1) return {from, count};
    gathered.clear();
    for (uint64_t row = 0; row < rows_of(block_row); ++row)
      gathered.insert(gathered.end(), from + row * cols, from + row * cols + count);
    return gathered;
  }

  void add_block(uint64_t block_row, uint64_t block, float min) {
    const Block weights_of = gather(block_row, block);
    const float scale = format.scale == ScaleType::kBf16 ? find_bf16_scale<Code>(weights_of, min)
                                                         : find_power_scale<Code>(weights_of);
    put_scale(format, scale, out.scales.data() + (block_row * blocks + block) * format.scale_bytes());
    const uint64_t count = weights_of.size() / rows_of(block_row);
    for (uint64_t row = 0; row < rows_of(block_row); ++row)
      put_codes(weights_of.subspan(row * count, count), scale,
                (block_row * format.block_rows + row) * cols + block * width);
  }

  // Writes codes from element `first` on, and adds up their errors. A block of 4-bit codes has whole bytes.
  void put_codes(Block block, float scale, uint64_t first) {
    const float inverse = 1 / scale;
    uint8_t* to = out.codes.data() + first * Code::kBits / 8;
    for (size_t i = 0; i < block.size(); ++i) {
      const float number = Code::round(block[i] * inverse);
      const double error = static_cast<double>(block[i]) - static_cast<double>(number) * scale;
      out.sums.weights += static_cast<double>(block[i]) * block[i];
      out.sums.errors += error * error;
      const size_t bit = i * Code::kBits;
      to[bit / 8] = static_cast<uint8_t>(to[bit / 8] | Code::code(number) << bit % 8);
    }
  }
};

}  // namespace

QuantizedRows quantize_rows(const Format& format, std::span<const float> weights, uint64_t cols) {
  switch (format.code) {
    case CodeType::kInt4:
      return RowsOfCodes<Int4>{format, weights, cols}.quantize();
    case CodeType::kE4m3:
      return RowsOfCodes<E4m3>{format, weights, cols}.quantize();
    case CodeType::kE2m1:
      return RowsOfCodes<E2m1>{format, weights, cols}.quantize();
  }
  return {};
}

}  // namespace mkc::quantize
