#include "runtime/session/weight_scales.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/base/half.h"

namespace mkrt {
namespace {

uint64_t ceil_of(uint64_t value, uint64_t by) {
  return (value + by - 1) / by;
}

Error unexpected(const StoredTensor& t, const std::string& expected) {
  return {fmt::format("{}: error: tensor \"{}\" is {} [{}], expected {}", t.file, t.name, t.dtype,
                      fmt::join(t.shape, ", "), expected)};
}

// Returns the tensor's shape as rows and columns, or nothing for more than two dims.
std::optional<std::pair<uint64_t, uint64_t>> shape_of(const StoredTensor& t) {
  if (t.shape.size() > 2) return {};
  const auto dim = [&](size_t i) { return i < t.shape.size() ? static_cast<uint64_t>(t.shape[i]) : 1; };
  return std::pair(dim(0), dim(1));
}

// Returns the power of 2 that a row's scales are divided by, so that f16 holds them.
float row_scale_of(std::span<const float> scales) {
  float largest = 0;
  for (const float s : scales) largest = std::max(largest, std::fabs(s));
  const bool fit = std::ranges::all_of(scales, [](float s) { return f16_to_f32(f32_to_f16(s)) == s; });
  return fit || largest == 0 ? 1 : std::ldexp(1.0f, std::ilogb(largest) - 14);
}

// Divides a row's scales by a power of 2, which it returns. Errors: a scale that f16 cannot hold then.
Result<float> normalise(const StoredTensor& t, std::span<float> scales) {
  const float by = row_scale_of(scales);
  for (float& s : scales) {
    const float quotient = s / by;
    if (f16_to_f32(f32_to_f16(quotient)) != quotient)
      return Error{
          fmt::format("{}: error: tensor \"{}\" has the scale {} beside {}, expected scales of a row "
                      "that f16 holds after division by a power of 2",
                      t.file, t.name, s, *std::ranges::max_element(scales))};
    s = quotient;
  }
  return by;
}

}  // namespace

bool is_float(const StoredTensor& t) {
  return t.dtype == "F32" || t.dtype == "F16" || t.dtype == "BF16";
}

float value_at(const StoredTensor& t, uint64_t i) {
  if (t.dtype == "F32") {
    float value;
    std::memcpy(&value, t.bytes.data() + 4 * i, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, t.bytes.data() + 2 * i, sizeof(bits));
  return t.dtype == "F16" ? f16_to_f32(bits) : bf16_to_f32(bits);
}

std::string codes_name(const WeightFormat& format, const std::string& weight) {
  return weight + format.codes;
}

const StoredTensor* find_scales(const Checkpoint& checkpoint, const WeightFormat& format,
                                const std::string& weight) {
  const StoredTensor* found = checkpoint.find(weight + format.scales);
  return found || !format.other_scales ? found : checkpoint.find(weight + format.other_scales);
}

Result<ScaleGrid> scale_grid(const Checkpoint& checkpoint, const WeightFormat& format,
                             const std::string& weight, uint64_t rows, uint64_t cols) {
  const StoredTensor* t = find_scales(checkpoint, format, weight);
  if (!t)
    return Error{
        fmt::format("{}: error: tensor \"{}{}\" is missing", checkpoint.directory, weight, format.scales)};
  const auto shape = shape_of(*t);
  const std::pair<uint64_t, uint64_t> blocks(ceil_of(rows, kScaleBlock), ceil_of(cols, kScaleBlock));
  if (format.group_rows > 1) {
    if (is_float(*t) && shape == blocks) return ScaleGrid{t, kScaleBlock, kScaleBlock, blocks.second};
    return unexpected(*t, fmt::format("BF16, F16 or F32 [{}, {}], a scale for each block of {} x {}",
                                      blocks.first, blocks.second, kScaleBlock, kScaleBlock));
  }
  if (is_float(*t) && shape == std::pair<uint64_t, uint64_t>(1, 1)) return ScaleGrid{t, rows, cols, 1};
  if (is_float(*t) && shape && shape->first == rows && shape->second != 0) {
    const uint64_t group = cols / shape->second;
    const bool whole = shape->second == 1 ||
                       (format.grouped() && group * shape->second == cols && group % format.group_cols == 0);
    if (whole) return ScaleGrid{t, 1, group, shape->second};
  }
  return unexpected(
      *t, format.grouped()
              ? fmt::format("BF16, F16 or F32 [{}, n], a scale for each group of a multiple of {} columns",
                            rows, format.group_cols)
              : fmt::format("BF16, F16 or F32 [{}, 1], a scale for each row", rows));
}

Result<PackedScales> packed_scales(const ScaleGrid& grid, const WeightFormat& format, uint64_t first,
                                   uint64_t count, uint64_t cols) {
  const uint64_t groups = format.grouped() ? ceil_of(cols, format.group_cols) : 1;
  std::vector<float> scales(count * groups);
  for (uint64_t row = 0; row < count; ++row)
    for (uint64_t group = 0; group < groups; ++group) {
      const float scale = grid.at(first + row, group * format.group_cols);
      if (!std::isfinite(scale))
        return Error{
            fmt::format("{}: error: tensor \"{}\" has the scale {} of row {}, expected a finite number",
                        grid.tensor->file, grid.tensor->name, scale, first + row)};
      scales[row * groups + group] = scale;
    }
  if (!format.grouped()) return PackedScales{std::move(scales), {}};
  PackedScales packed{std::vector<float>(count, 1), std::move(scales)};
  for (uint64_t row = 0; row < count && format.scale_bytes != 0; ++row) {
    const Result<float> by = normalise(*grid.tensor, std::span(packed.groups).subspan(row * groups, groups));
    if (!by.ok()) return by.error();
    packed.rows[row] = by.value();
  }
  return packed;
}

}  // namespace mkrt
