#include "runtime/session/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "runtime/abi/packing.h"
#include "runtime/artefact/stored_matrix.h"
#include "runtime/artefact/tensor_view.h"
#include "runtime/base/half.h"
#include "runtime/session/matrix_reader.h"
#include "runtime/session/plain_rows.h"
#include "runtime/session/session.h"

namespace mkrt {
namespace {

// Returns the format of a packed weight of a checked manifest.
WeightType type_of(const ManifestWeight& w) {
  return *find_weight_type(w.element);
}

constexpr uint64_t kRows = 256;  // bytes before the rows in staging memory, for the MkPack
static_assert(sizeof(MkPack) <= kRows);
constexpr uint64_t kScaleAlignment = 16;  // of scales, behind the rows

// Tells whether rows that begin here can be packed where they are. Words of codes have 4 bytes.
bool is_aligned(const void* rows) {
  return reinterpret_cast<uintptr_t>(rows) % sizeof(uint32_t) == 0;
}

// Checks one source of a weight, and its scales.
Status check_source(const ManifestWeight& w, const std::string& name, const Checkpoint& checkpoint) {
  const bool vector = w.layout == WeightLayout::kVector;
  std::vector<int64_t> shape{static_cast<int64_t>(w.cols)};
  if (!vector) shape.insert(shape.begin(), static_cast<int64_t>(w.rows * w.stack / w.sources.size()));
  const WeightType type = type_of(w);
  const WeightFormat format = weight_format(type);
  if (!vector && format.coded()) {
    const auto reader = MatrixReader::open(checkpoint, name, type, static_cast<uint64_t>(shape[0]), w.cols);
    return reader.ok() ? Status() : reader.error();
  }
  const StoredTensor* t = find_plain(checkpoint, name);
  if (!t) return Error{fmt::format("{}: error: tensor \"{}\" is missing", checkpoint.directory, name)};
  if (const auto view = find_view(name)) shape = view->whole_shape(shape, static_cast<int64_t>(w.stack));
  if (t->shape != shape || (vector ? !is_float(*t) : t->dtype != format.stored))
    return unexpected_tensor({t->name, t->dtype, t->file, t->shape},
                             fmt::format("{} {}", format.stored, shape_text(shape)));
  return {};
}

// Writes a scale of a group.
void write_scale(ScaleType type, float value, std::byte* to) {
  const uint32_t bits = type == ScaleType::kF32    ? std::bit_cast<uint32_t>(value)
                        : type == ScaleType::kF16  ? f32_to_f16(value)
                        : type == ScaleType::kE4m3 ? f32_to_e4m3(value)
                                                   : std::bit_cast<uint32_t>(value) >> 23;
  std::memcpy(to, &bits, scale_size(type));
}

// Sets all scales of a packed weight, where its format has scales. Those of groups become about `value`, and
// else those of rows. Zero points become the middle of the codes.
void set_scales(const ManifestWeight& w, float value, std::span<std::byte> out) {
  const PackedShape shape = packed_shape(w.rows, w.cols, type_of(w));
  const WeightFormat& format = shape.format;
  const float of_rows = format.grouped() ? 1 : value;
  for (uint64_t matrix = 0; matrix < w.stack && format.coded(); ++matrix)
    for (uint64_t row = 0; row < shape.strips * kStripRows; ++row) {
      const uint64_t base = matrix * shape.bytes;
      for (uint64_t k_slice = 0; k_slice < kKSlices && format.scale_bytes != 0; ++k_slice)
        std::memcpy(&out[base + scale_offset(shape, row, k_slice)], &of_rows, sizeof(of_rows));
      for (uint64_t col = 0; format.grouped() && col < shape.padded_cols; col += format.group_cols) {
        write_scale(format.group_scale, value, &out[base + group_scale_offset(shape, row, col)]);
        if (format.zeros) out[base + group_zero_offset(shape, row, col)] = std::byte(1u << (format.bits - 1));
      }
    }
}

}  // namespace

Status check_weights(const Manifest& manifest, const Checkpoint& checkpoint) {
  for (const ManifestWeight& w : manifest.weights)
    for (const std::string& name : w.sources)
      if (Status status = check_source(w, name, checkpoint); !status.ok()) return status;
  return {};
}

Status check_copies(const Manifest& manifest, const Checkpoint& checkpoint) {
  for (const ManifestCopy& c : manifest.copies) {
    const StoredTensor *copy = checkpoint.find(c.name), *of = checkpoint.find(c.of);
    if (!copy || !of || copy->bytes.data() == of->bytes.data()) continue;
    if (copy->bytes.size() != of->bytes.size() ||
        std::memcmp(copy->bytes.data(), of->bytes.data(), of->bytes.size()) != 0)
      return Error{fmt::format("{}/config.json: error: {}, but tensor \"{}\" differs from \"{}\"",
                               checkpoint.directory, c.reason, c.name, c.of)};
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
    for (uint64_t i = 0; t && i < count; ++i)
      if (const float scale = value_at(*t, i); !(scale > 0) || !std::isfinite(scale))
        return Error{
            fmt::format("{}: error: tensor \"{}\" has the scale {} at element {}, expected a positive number",
                        t->file, t->name, scale, i)};
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

// Returns how many rows are packed together. Whole strips are packed fastest.
uint64_t WeightLoader::rows_of_piece(uint64_t row_bytes, uint64_t rows) const {
  const uint64_t fit = std::clamp<uint64_t>(piece_bytes_ / row_bytes, 1, rows);
  return fit == rows || fit < kStripRows ? fit : fit / kStripRows * kStripRows;
}

Status WeightLoader::load_matrix(const ManifestWeight& w, std::span<const std::string> sources, uint64_t to) {
  const WeightFormat format = weight_format(type_of(w));
  const uint64_t row_bytes = w.cols * format.bits / 8, rows = w.rows / sources.size(),
                 max = rows_of_piece(row_bytes, rows),
                 groups = format.grouped() ? (w.cols + format.group_cols - 1) / format.group_cols : 0,
                 scales_at =
                     kRows + (max * row_bytes + kScaleAlignment - 1) / kScaleAlignment * kScaleAlignment,
                 groups_at = scales_at + max * sizeof(float),
                 zeros_at = groups_at + max * groups * sizeof(float);
  if (Status status = reserve(zeros_at + (format.zeros ? max * groups : 0)); !status.ok()) return status;
  MkPack pack{staging_ + kRows,
              staging_ + scales_at,
              staging_ + groups_at,
              staging_ + zeros_at,
              to,
              0,
              0,
              w.cols,
              w.rows,
              sources.size(),
              0,
              w.group,
              static_cast<uint64_t>(type_of(w))};
  for (; pack.source < sources.size(); ++pack.source)
    if (Status status = load_source(sources[pack.source], format, rows, max, pack); !status.ok())
      return status;
  return {};
}

Status WeightLoader::load_source(const std::string& name, const WeightFormat& format, uint64_t rows,
                                 uint64_t max, MkPack pack) {
  const auto type = static_cast<WeightType>(pack.type);
  std::optional<MatrixReader> reader;
  if (format.coded()) {
    Result<MatrixReader> opened = MatrixReader::open(checkpoint_, name, type, rows, pack.cols);
    if (!opened.ok()) return opened.error();
    reader = std::move(opened.value());
  }
  const uint64_t staged = pack.from;
  std::vector<std::byte> memory;
  for (pack.first = 0; pack.first < rows; pack.first += pack.rows) {
    pack.rows = std::min(max, rows - pack.first);
    const std::span<const std::byte> from =
        reader ? reader->codes(pack.first, pack.rows, memory)
               : plain_rows(checkpoint_, {name, rows, pack.cols, format.bits / 8}, pack.first, pack.rows,
                            memory);
    const bool in_place = device_.shares_memory() && is_aligned(from.data());
    pack.from = in_place ? reinterpret_cast<uint64_t>(from.data()) : staged;
    Status status = device_.write(staging_, std::as_bytes(std::span(&pack, 1)));
    if (status.ok() && !in_place) status = device_.write(pack.from, from);
    if (status.ok() && reader) status = write_scales(*reader, pack);
    if (status.ok()) status = device_.pack(staging_);
    if (!status.ok()) return status;
  }
  return {};
}

Status WeightLoader::write_scales(const MatrixReader& reader, const MkPack& pack) {
  const Result<PackedScales> scales = reader.scales(pack.first, pack.rows);
  if (!scales.ok()) return scales.error();
  Status status = device_.write(pack.scales, std::as_bytes(std::span(scales.value().rows)));
  if (status.ok() && !scales.value().groups.empty())
    status = device_.write(pack.group_scales, std::as_bytes(std::span(scales.value().groups)));
  if (status.ok() && !scales.value().zeros.empty())
    status = device_.write(pack.group_zeros, std::as_bytes(std::span(scales.value().zeros)));
  return status;
}

Status WeightLoader::load_vector(const ManifestWeight& weight, uint64_t to) {
  std::vector<float> values(weight.stack * weight.cols);
  for (uint64_t i = 0; i < weight.stack; ++i)
    read_vector(checkpoint_, weight.sources[i], std::span(values).subspan(i * weight.cols, weight.cols));
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
    const bool codes = element_bits(w.element) < 8;  // bytes of f16 values are codes as good as any
    const uint32_t size = vector ? 4 : codes ? 2 : element_bytes(w.element);
    const float scale = vector ? 0.1f : 1.0f / std::sqrt(static_cast<float>(w.cols)), mean = vector ? 1 : 0;
    const std::span<std::byte> block = out.first(std::min(out.size(), kBlock * size));
    for (size_t i = 0; i < block.size() / size; ++i) {
      const float v = mean + scale * values[i];
      const uint32_t bits = size == 4                    ? std::bit_cast<uint32_t>(v)
                            : size == 1                  ? f32_to_e4m3(v)
                            : codes                      ? std::bit_cast<uint32_t>(v) >> 4
                            : w.element == Element::kF16 ? f32_to_f16(v)
                                                         : f32_to_bf16(v);
      std::memcpy(block.data() + i * size, &bits, size);
    }
    for (size_t at = block.size(); at < out.size(); at += block.size())
      std::memcpy(out.data() + at, block.data(), std::min(block.size(), out.size() - at));
    constexpr float kCodeDeviation = 4.6f;  // standard deviation of codes from 0 to 15
    if (!vector) set_scales(w, codes ? scale / kCodeDeviation : 1, out);
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
