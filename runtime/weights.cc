#include "runtime/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "runtime/emulator/half.h"
#include "runtime/packing.h"
#include "runtime/session.h"

namespace mkrt {
namespace {

const char* stored_name(Element e) {
  return e == Element::kF32 ? "F32" : e == Element::kF16 ? "F16" : "BF16";
}

bool is_float(const StoredTensor& t) {
  return t.dtype == "F32" || t.dtype == "F16" || t.dtype == "BF16";
}

// Element i of a float tensor.
float value_at(const StoredTensor& t, uint64_t i) {
  if (t.dtype == "F32") {
    float value;
    std::memcpy(&value, t.bytes.data() + 4 * i, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, t.bytes.data() + 2 * i, sizeof(bits));
  return t.dtype == "F16" ? emulator::f16_to_f32(bits) : emulator::bf16_to_f32(bits);
}

// Copies one row of a weight to its places in the packed layout. Within a k-step two neighbouring columns
// stay together, and their places are fixed distances from the step's first.
void pack_row(const PackedShape& shape, uint64_t row, const std::byte* from, std::byte* out) {
  const uint64_t size = shape.elem_bytes, step_cols = 32 / size;
  for (uint64_t col = 0; col < shape.cols; col += step_cols) {
    std::byte* step = out + packed_offset(shape, row, col);
    const uint64_t count = std::min(step_cols, shape.cols - col);
    for (uint64_t k = 0; k < count; k += 2)
      std::memcpy(step + k % 8 / 2 * 16 + k / 8 * 4 * size, from + (col + k) * size,
                  std::min<uint64_t>(2, count - k) * size);
  }
}

// Of the sources of one matrix.
void pack_matrix(const ManifestWeight& w, std::span<const std::string> names, const Checkpoint& checkpoint,
                 std::span<std::byte> out) {
  const PackedShape shape = packed_shape(w.rows, w.cols, element_bytes(w.element));
  const uint64_t sources = names.size(), row_bytes = w.cols * shape.elem_bytes;
  if (shape.padded_cols != w.cols || shape.strips * kStripRows != w.rows)
    std::memset(out.data(), 0, out.size());
  for (uint64_t s = 0; s < sources; ++s) {
    const std::byte* from = checkpoint.find(names[s])->bytes.data();
    for (uint64_t r = 0; r < w.rows / sources; ++r) {
      const uint64_t row = sources == 1 ? r : (r / w.group * sources + s) * w.group + r % w.group;
      pack_row(shape, row, from + r * row_bytes, out.data());
    }
  }
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
      if (t->shape != shape || (vector ? !is_float(*t) : t->dtype != stored_name(w.element)))
        return Error{fmt::format("{}: error: tensor \"{}\" is {} [{}], expected {} [{}]", t->file, name,
                                 t->dtype, fmt::join(t->shape, ", "), stored_name(w.element),
                                 fmt::join(shape, ", "))};
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

void pack_weight(const ManifestWeight& weight, const Checkpoint& checkpoint, std::span<std::byte> out) {
  if (weight.layout == WeightLayout::kPacked) {
    const std::span<const std::string> names = weight.sources;
    const size_t sources = names.size() / weight.stack;
    const uint64_t bytes = packed_shape(weight.rows, weight.cols, element_bytes(weight.element)).bytes;
    for (uint64_t i = 0; i < weight.stack; ++i)
      pack_matrix(weight, names.subspan(i * sources, sources), checkpoint, out.subspan(i * bytes, bytes));
    return;
  }
  const StoredTensor& source = *checkpoint.find(weight.sources[0]);
  for (uint64_t i = 0; i < weight.cols; ++i) {
    const float value = value_at(source, i);
    std::memcpy(out.data() + i * sizeof(value), &value, sizeof(value));
  }
}

WeightSource random_weights(uint64_t seed) {
  // One block of values is repeated: a generator would be slower than the copy to the device by far.
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
                            : w.element == Element::kE4m3 ? emulator::f32_to_e4m3(v)
                            : w.element == Element::kF16  ? emulator::f32_to_f16(v)
                                                          : emulator::f32_to_bf16(v);
      std::memcpy(block.data() + i * size, &bits, size);
    }
    for (size_t at = block.size(); at < out.size(); at += block.size())
      std::memcpy(out.data() + at, block.data(), std::min(block.size(), out.size() - at));
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
