#include "runtime/session/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "runtime/abi/packing.h"
#include "runtime/base/half.h"
#include "runtime/session/session.h"

namespace mkrt {
namespace {

// Returns the format of a packed weight of a checked manifest.
WeightType type_of(const ManifestWeight& w) {
  return *find_weight_type(w.element);
}

bool is_float(const StoredTensor& t) {
  return t.dtype == "F32" || t.dtype == "F16" || t.dtype == "BF16";
}

// Returns element i of a float tensor.
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

constexpr uint64_t kRows = 256;  // bytes before the rows in staging memory, for the MkPack
static_assert(sizeof(MkPack) <= kRows);
constexpr uint64_t kAlignment = 16;  // of scales, behind the rows

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Error unexpected(const StoredTensor& t, const std::string& expected) {
  return {fmt::format("{}: error: tensor \"{}\" is {} {}, expected {}", t.file, t.name, t.dtype,
                      shape_text(t.shape), expected)};
}

// Checks the scales of `weight`. A checkpoint has them as a vector or as a column.
Status check_row_scales(const Checkpoint& checkpoint, const std::string& weight, const WeightFormat& format,
                        int64_t rows) {
  const std::string name = weight + format.scales;
  const StoredTensor* t = checkpoint.find(name);
  if (!t) return Error{fmt::format("{}: error: tensor \"{}\" is missing", checkpoint.directory, name)};
  const bool fits = t->shape == std::vector<int64_t>{rows} || t->shape == std::vector<int64_t>{rows, 1};
  if (is_float(*t) && fits) return {};
  return unexpected(*t, fmt::format("BF16, F16 or F32 [{}, 1], a scale for each row", rows));
}

// Sets the scales of a packed weight's rows to 1, where its format has scales.
void set_row_scales(const ManifestWeight& w, std::span<std::byte> out) {
  const PackedShape shape = packed_shape(w.rows, w.cols, type_of(w));
  const float one = 1;
  for (uint64_t matrix = 0; matrix < w.stack && shape.format.scales; ++matrix)
    for (uint64_t row = 0; row < shape.strips * kStripRows; ++row)
      for (uint64_t k_slice = 0; k_slice < kKSlices; ++k_slice)
        std::memcpy(&out[matrix * shape.bytes + scale_offset(shape, row, k_slice)], &one, sizeof(one));
}

}  // namespace

Status check_weights(const Manifest& manifest, const Checkpoint& checkpoint) {
  for (const ManifestWeight& w : manifest.weights) {
    std::vector<int64_t> shape{static_cast<int64_t>(w.cols)};
    if (w.layout == WeightLayout::kPacked)
      shape.insert(shape.begin(), static_cast<int64_t>(w.rows * w.stack / w.sources.size()));
    for (const std::string& name : w.sources) {
      const StoredTensor* t = checkpoint.find(name);
      if (!t) return Error{fmt::format("{}: error: tensor \"{}\" is missing", checkpoint.directory, name)};
      const bool vector = w.layout == WeightLayout::kVector;
      const WeightFormat format = weight_format(type_of(w));
      if (t->shape != shape || (vector ? !is_float(*t) : t->dtype != format.stored))
        return unexpected(*t, fmt::format("{} {}", format.stored, shape_text(shape)));
      if (!vector && format.scales)
        if (Status status = check_row_scales(checkpoint, name, format, shape[0]); !status.ok()) return status;
    }
  }
  return {};
}

Result<std::vector<float>> cache_scales(const Manifest& manifest, const Checkpoint& checkpoint) {
  std::vector<float> scales;
  for (const ManifestCache& c : manifest.caches) {
    if (c.element != Element::kE4m3) continue;
    const StoredTensor* t = checkpoint.find(c.scales);
    uint64_t count = 1;
    for (const int64_t size : t ? t->shape : std::vector<int64_t>()) count *= static_cast<uint64_t>(size);
    if (t && (!is_float(*t) || (count != 1 && count != c.heads)))
      return Error{fmt::format("{}: error: tensor \"{}\" is {} [{}], expected 1 or {} scales", t->file,
                               t->name, t->dtype, fmt::join(t->shape, ", "), c.heads)};
    for (uint64_t head = 0; head < c.heads; ++head)
      scales.push_back(t ? value_at(*t, count == 1 ? 0 : head) : 1);
  }
  return scales;
}

WeightLoader::~WeightLoader() {
  if (staging_) device_.release(staging_);
}

Status WeightLoader::reserve(uint64_t bytes) {
  if (bytes <= staging_bytes_) return {};
  if (staging_) device_.release(std::exchange(staging_, 0));
  const Result<uint64_t> memory = device_.allocate(bytes);
  if (!memory.ok()) return memory.error();
  staging_ = memory.value();
  staging_bytes_ = bytes;
  return {};
}

Status WeightLoader::load(const ManifestWeight& weight, uint64_t to) {
  if (weight.layout == WeightLayout::kVector) return load_vector(weight, to);
  const PackedShape shape = packed_shape(weight.rows, weight.cols, type_of(weight));
  if (shape.padded_cols != weight.cols || shape.strips * kStripRows != weight.rows)
    if (Status status = device_.clear(to, weight.bytes); !status.ok()) return status;
  const std::span<const std::string> names = weight.sources;
  const size_t sources = names.size() / weight.stack;
  for (uint64_t i = 0; i < weight.stack; ++i)
    if (Status status = load_matrix(weight, names.subspan(i * sources, sources), to + i * shape.bytes);
        !status.ok())
      return status;
  return {};
}

Status WeightLoader::load_matrix(const ManifestWeight& w, std::span<const std::string> sources, uint64_t to) {
  const WeightFormat format = weight_format(type_of(w));
  const uint64_t row_bytes = w.cols * format.bits / 8, rows = w.rows / sources.size(),
                 max = std::clamp<uint64_t>(piece_bytes_ / row_bytes, 1, rows),
                 scales_at = kRows + (max * row_bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (Status status = reserve(scales_at + max * sizeof(float)); !status.ok()) return status;
  MkPack pack{staging_ + kRows,
              staging_ + scales_at,
              to,
              0,
              0,
              w.cols,
              w.rows,
              sources.size(),
              0,
              w.group,
              static_cast<uint64_t>(type_of(w))};
  for (; pack.source < sources.size(); ++pack.source) {
    const std::string& name = sources[pack.source];
    const std::span<const std::byte> from = checkpoint_.find(name)->bytes;
    const StoredTensor* scales = format.scales ? checkpoint_.find(name + format.scales) : nullptr;
    for (pack.first = 0; pack.first < rows; pack.first += pack.rows) {
      pack.rows = std::min(max, rows - pack.first);
      if (Status status = device_.write(staging_, std::as_bytes(std::span(&pack, 1))); !status.ok())
        return status;
      if (Status status =
              device_.write(pack.from, from.subspan(pack.first * row_bytes, pack.rows * row_bytes));
          !status.ok())
        return status;
      if (scales)
        if (Status status = write_scales(*scales, pack); !status.ok()) return status;
      if (Status status = device_.pack(staging_); !status.ok()) return status;
    }
  }
  return {};
}

Status WeightLoader::write_scales(const StoredTensor& scales, const MkPack& pack) {
  std::vector<float> values(pack.rows);
  for (uint64_t i = 0; i < pack.rows; ++i) values[i] = value_at(scales, pack.first + i);
  return device_.write(pack.scales, std::as_bytes(std::span(values)));
}

Status WeightLoader::load_vector(const ManifestWeight& weight, uint64_t to) {
  const StoredTensor& source = *checkpoint_.find(weight.sources[0]);
  std::vector<float> values(weight.cols);
  for (uint64_t i = 0; i < weight.cols; ++i) values[i] = value_at(source, i);
  return device_.write(to, std::as_bytes(std::span(values)));
}

WeightSource random_weights(uint64_t seed) {
  // One block of values is repeated, because a generator would be far slower than the copy to the device.
  constexpr size_t kBlock = size_t{1} << 20;
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(kBlock);
  for (float& v : values) v = normal(random);
  return [values = std::move(values)](const ManifestWeight& w, std::span<std::byte> out) {
    const bool vector = w.layout == WeightLayout::kVector;
    const uint32_t size = vector ? 4 : element_bytes(w.element);
    const float scale = vector ? 0.1f : 1.0f / std::sqrt(static_cast<float>(w.cols)), mean = vector ? 1 : 0;
    const std::span<std::byte> block = out.first(std::min(out.size(), kBlock * size));
    for (size_t i = 0; i < block.size() / size; ++i) {
      const float v = mean + scale * values[i];
      const uint32_t bits = size == 4                     ? std::bit_cast<uint32_t>(v)
                            : w.element == Element::kE4m3 ? f32_to_e4m3(v)
                            : w.element == Element::kF16  ? f32_to_f16(v)
                                                          : f32_to_bf16(v);
      std::memcpy(block.data() + i * size, &bits, size);
    }
    for (size_t at = block.size(); at < out.size(); at += block.size())
      std::memcpy(out.data() + at, block.data(), std::min(block.size(), out.size() - at));
    if (!vector) set_row_scales(w, out);
    return Status();
  };
}

void fill_rope(const ManifestRope& rope, std::span<float> out) {
  const size_t half = rope.inv_freq.size();
  for (uint64_t position = 0; position < rope.positions; ++position)
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) * rope.inv_freq[i];
      out[position * 2 * half + i] = static_cast<float>(rope.scale * std::cos(angle));
      out[position * 2 * half + half + i] = static_cast<float>(rope.scale * std::sin(angle));
    }
}

}  // namespace mkrt
