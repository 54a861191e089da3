#include "runtime/session/matrix_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/half.h"
#include "runtime/session/gptq_config.h"

namespace mkrt {
namespace {

constexpr uint32_t kCodeWordBits = 32;
// Entry i is the place, in codes, at which a word of AWQ has the code of row i of 8.
constexpr uint32_t kAwqPlace[] = {0, 4, 1, 5, 2, 6, 3, 7};

uint32_t word_at(const StoredTensor& t, uint64_t i) {
  uint32_t word;
  std::memcpy(&word, t.bytes.data() + i * sizeof(word), sizeof(word));
  return word;
}

bool fits_f16(float value) {
  return f16_to_f32(f32_to_f16(value)) == value;
}

// Returns the power of 2 that a row's scales are divided by, so that f16 holds them. `largest` is their
// greatest magnitude. The power is a normal f32, so quotients of subnormal scales are finite.
float row_scale_of(std::span<const float> scales, float largest) {
  if (largest == 0 || std::ranges::all_of(scales, fits_f16)) return 1;
  constexpr int kLeastExponent = std::numeric_limits<float>::min_exponent - 1;
  return std::ldexp(1.0f, std::max(std::ilogb(largest) - 14, kLeastExponent));
}

// Divides a row's scales by a power of 2, which it returns. Errors: a scale that f16 cannot hold then.
Result<float> normalise(const StoredTensor& t, std::span<float> scales) {
  float largest = 0;
  for (const float s : scales) largest = std::fabs(s) > std::fabs(largest) ? s : largest;
  const float by = row_scale_of(scales, std::fabs(largest));
  for (float& s : scales) {
    const float quotient = s / by;
    if (!fits_f16(quotient))
      return Error{
          fmt::format("{}: error: tensor \"{}\" has the scale {} beside {}, expected scales of a row "
                      "that f16 holds after division by a power of 2",
                      t.file, t.name, s, largest)};
    s = quotient;
  }
  return by;
}

// Transposes words [words of a row][rows] of `all` rows to rows of words, for rows [first, first + count).
void transpose_words(const StoredTensor& from, uint64_t all, uint64_t words, uint64_t first, uint64_t count,
                     std::byte* to) {
  constexpr uint64_t kBlock = 16;  // words that share a line of the cache
  for (uint64_t row = 0; row < count; row += kBlock)
    for (uint64_t word = 0; word < words; ++word)
      for (uint64_t r = row; r < std::min(row + kBlock, count); ++r)
        std::memcpy(to + (r * words + word) * 4, from.bytes.data() + (word * all + first + r) * 4, 4);
}

// Writes rows [first, first + count) of codes of AWQ, whose words are [cols][all / 8].
void transpose_awq(const StoredTensor& from, uint64_t all, uint64_t cols, uint64_t first, uint64_t count,
                   std::byte* to) {
  for (uint64_t row = 0; row < count; ++row) {
    const uint64_t at = (first + row) / 8;
    const uint32_t shift = 4 * kAwqPlace[(first + row) % 8];
    for (uint64_t col = 0; col < cols; col += 2) {
      const uint32_t low = word_at(from, col * (all / 8) + at) >> shift & 15u;
      const uint32_t high = word_at(from, (col + 1) * (all / 8) + at) >> shift & 15u;
      to[(row * cols + col) / 2] = static_cast<std::byte>(low | high << 4);
    }
  }
}

// Tells whether weights of a format can hold a stored matrix.
bool can_hold(const WeightFormat& format, const StoredMatrix& stored, uint64_t cols) {
  const WeightFormat found = weight_format(stored.type);
  if (format.code != CodeType::kInteger) return std::string_view(format.name) == found.name;
  const bool groups = stored.scale_cols == cols || stored.scale_cols % format.group_cols == 0;
  return found.code == CodeType::kInteger && format.bits == stored.bits && groups;
}

// Returns a search of the checkpoint's tensors.
FindTensor finder_of(const Checkpoint& checkpoint) {
  return [&checkpoint](const std::string& name) -> std::optional<TensorHeader> {
    const StoredTensor* t = checkpoint.find(name);
    if (!t) return {};
    return TensorHeader{t->name, t->dtype, t->file, t->shape};
  };
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
  if (t.dtype == "F8_E4M3") return e4m3_to_f32(static_cast<uint8_t>(t.bytes[i]));
  if (t.dtype == "F8_E8M0" || t.dtype == "U8") {
    const auto exponent = static_cast<int>(t.bytes[i]);
    return exponent == 255 ? NAN : std::ldexp(1.0f, exponent - 127);
  }
  uint16_t bits;
  std::memcpy(&bits, t.bytes.data() + 2 * i, sizeof(bits));
  return t.dtype == "F16" ? f16_to_f32(bits) : bf16_to_f32(bits);
}

Result<MatrixReader> MatrixReader::open(const Checkpoint& checkpoint, const std::string& name,
                                        WeightType type, uint64_t rows, uint64_t cols) {
  MatrixReader reader;
  reader.format_ = weight_format(type);
  reader.rows_ = rows, reader.cols_ = cols;
  const bool symmetric = !reader.format_.zeros;
  const auto found = find_stored_matrix(finder_of(checkpoint), name, rows, cols, symmetric);
  if (!found.ok()) return found.error();
  if (!found.value() || !can_hold(reader.format_, *found.value(), cols))
    return Error{
        fmt::format("{}: error: weight \"{}\" is {}, expected {}", checkpoint.directory, name,
                    found.value() ? weight_format(found.value()->type).name : "missing or not quantized",
                    reader.format_.name)};
  reader.stored_ = *found.value();
  const StoredMatrix& stored = reader.stored_;
  reader.codes_ = checkpoint.find(stored.codes);
  reader.scales_ = checkpoint.find(stored.scales);
  if (Status status = reader.check_column_groups(checkpoint); !status.ok()) return status.error();
  if (Status status = reader.open_zeros(checkpoint); !status.ok()) return status.error();
  if (!stored.factor.empty()) {
    const StoredTensor& t = *checkpoint.find(stored.factor);
    const float factor = value_at(t, 0);
    reader.factor_ = stored.divided ? 1 / factor : factor;
    if (!std::isfinite(factor) || !std::isfinite(reader.factor_) || factor == 0)
      return Error{fmt::format("{}: error: tensor \"{}\" is {}, expected a finite number but 0", t.file,
                               t.name, factor)};
  }
  return reader;
}

Status MatrixReader::open_zeros(const Checkpoint& checkpoint) {
  if (stored_.zeros.empty()) return {};
  zeros_ = checkpoint.find(stored_.zeros);
  if (stored_.order == CodeOrder::kColumns) {
    const Result<uint32_t> offset = gptq_zero_offset(checkpoint);
    if (!offset.ok()) return offset.error();
    const uint32_t of_each = stored_.bits == 4 ? 0x11111111 : 0x01010101;
    zero_offset_ = offset.value() * of_each;
  }
  const uint32_t middle = 1u << (stored_.bits - 1);
  for (uint64_t row = 0; row < rows_ && !format_.zeros; ++row)
    for (uint64_t group = 0; group < cols_ / stored_.scale_cols; ++group)
      if (const uint32_t zero = zero_at(row, group); zero != middle)
        return Error{
            fmt::format("{}: error: tensor \"{}\" has the zero point {} of row {}, expected {} because the "
                        "config says that weights are symmetric",
                        zeros_->file, zeros_->name, zero, row, middle)};
  return {};
}

Status MatrixReader::check_column_groups(const Checkpoint& checkpoint) const {
  if (stored_.column_group.empty()) return {};
  const StoredTensor& t = *checkpoint.find(stored_.column_group);
  for (uint64_t col = 0; col < cols_; ++col)
    if (word_at(t, col) != col / stored_.scale_cols)
      return Error{
          fmt::format("{}: error: tensor \"{}\" puts column {} into group {}, expected {}: groups of "
                      "columns in another order (desc_act) are not supported",
                      t.file, t.name, col, static_cast<int32_t>(word_at(t, col)), col / stored_.scale_cols)};
  return {};
}

std::span<const std::byte> MatrixReader::codes(uint64_t first, uint64_t count,
                                               std::vector<std::byte>& memory) const {
  const uint64_t row_bytes = cols_ * stored_.bits / 8;
  const uint64_t step = stored_.row_step, begin = stored_.first_row + first * step;
  if (stored_.order == CodeOrder::kRows && step == 1)
    return codes_->bytes.subspan(begin * row_bytes, count * row_bytes);
  memory.resize(count * row_bytes);
  if (stored_.order == CodeOrder::kRows)
    for (uint64_t row = 0; row < count; ++row)
      std::memcpy(&memory[row * row_bytes], &codes_->bytes[(begin + row * step) * row_bytes], row_bytes);
  else if (stored_.order == CodeOrder::kColumns)
    transpose_words(*codes_, rows_, row_bytes / 4, first, count, memory.data());
  else
    transpose_awq(*codes_, rows_, cols_, first, count, memory.data());
  return memory;
}

float MatrixReader::scale_at(uint64_t row, uint64_t col) const {
  const uint64_t block_row = (stored_.first_row + row * stored_.row_step) / stored_.scale_rows,
                 block_col = col / stored_.scale_cols;
  if (stored_.order != CodeOrder::kRows) return value_at(*scales_, block_col * rows_ + row);
  return value_at(*scales_, block_row * ((cols_ + stored_.scale_cols - 1) / stored_.scale_cols) + block_col);
}

uint32_t MatrixReader::zero_at(uint64_t row, uint64_t group) const {
  const uint32_t n = kCodeWordBits / stored_.bits, mask = (1u << stored_.bits) - 1;
  const uint64_t groups = cols_ / stored_.scale_cols;
  const bool rows = stored_.order == CodeOrder::kRows;
  const uint32_t word = word_at(*zeros_, rows ? row / n * groups + group : group * (rows_ / n) + row / n);
  const uint64_t place = stored_.order == CodeOrder::kAwq ? kAwqPlace[row % n] : row % n;
  return ((word + zero_offset_) >> place * stored_.bits) & mask;
}

void MatrixReader::fill_zeros(uint64_t first, uint64_t count, PackedScales& packed) const {
  const uint64_t groups = packed.groups.size() / count;
  packed.zeros.assign(count * groups, static_cast<uint8_t>(1u << (stored_.bits - 1)));
  for (uint64_t row = 0; row < count && zeros_; ++row)
    for (uint64_t group = 0; group < groups; ++group)
      packed.zeros[row * groups + group] =
          static_cast<uint8_t>(zero_at(first + row, group * format_.group_cols / stored_.scale_cols));
}

Result<PackedScales> MatrixReader::scales(uint64_t first, uint64_t count) const {
  const uint64_t groups = format_.grouped() ? (cols_ + format_.group_cols - 1) / format_.group_cols : 1;
  std::vector<float> scales(count * groups);
  for (uint64_t row = 0; row < count; ++row)
    for (uint64_t group = 0; group < groups; ++group) {
      const float scale = scale_at(first + row, group * format_.group_cols);
      if (!std::isfinite(scale))
        return Error{
            fmt::format("{}: error: tensor \"{}\" has the scale {} of row {}, expected a finite number",
                        scales_->file, scales_->name, scale, first + row)};
      scales[row * groups + group] = scale;
    }
  if (!format_.grouped()) return PackedScales{std::move(scales), {}, {}};
  PackedScales packed{std::vector<float>(count, factor_), std::move(scales), {}};
  for (uint64_t row = 0; row < count && format_.group_scale == ScaleType::kF16; ++row) {
    const Result<float> by = normalise(*scales_, std::span(packed.groups).subspan(row * groups, groups));
    if (!by.ok()) return by.error();
    packed.rows[row] = by.value();
  }
  if (format_.zeros) fill_zeros(first, count, packed);
  return packed;
}

std::vector<const StoredTensor*> MatrixReader::float_tensors() const {
  std::vector<const StoredTensor*> tensors{scales_};
  if (codes_->dtype == "F8_E4M3") tensors.push_back(codes_);
  return tensors;
}

}  // namespace mkrt
