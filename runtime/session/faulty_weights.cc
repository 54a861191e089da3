#include "runtime/session/faulty_weights.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "runtime/base/parallel.h"
#include "runtime/session/matrix_reader.h"
#include "runtime/session/plain_rows.h"

namespace mkrt {
namespace {

struct Nans {
  uint64_t count = 0, first = 0;  // as in FaultyTensor, but within a slice
  uint64_t elements = 0;          // of the slice
};

// Counts the elements of one width that are not a number: their bits without the sign are above `exponent`.
// A NaN of an IEEE type has all exponent bits and some other bit set. E4M3 has one NaN of each sign.
template <class Bits>
Nans count_nans(std::span<const std::byte> bytes, Bits exponent) {
  Nans nans{0, 0, bytes.size() / sizeof(Bits)};
  constexpr size_t kBlock = 4096;  // a block's count is one sum without branches
  constexpr auto kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto is_nan = [&](size_t i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
    return static_cast<Bits>(bits & ~kSign) > exponent;
  };
  for (size_t begin = 0; begin < nans.elements; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, nans.elements);
    uint32_t found = 0;
    for (size_t i = begin; i < end; ++i) found += is_nan(i);
    for (size_t i = begin; i < end && found != 0 && nans.count == 0; ++i)
      if (is_nan(i)) nans.first = i, nans.count = found, found = 0;
    nans.count += found;
  }
  return nans;
}

// Counts the elements of a tensor's slice.
Nans count_nans(const std::string& dtype, std::span<const std::byte> bytes) {
  if (dtype == "F8_E4M3") return count_nans<uint8_t>(bytes, 0x7e);
  if (dtype == "F32") return count_nans<uint32_t>(bytes, 0x7f800000);
  if (dtype == "F16") return count_nans<uint16_t>(bytes, 0x7c00);
  if (dtype == "BF16") return count_nans<uint16_t>(bytes, 0x7f80);
  return {};
}

// Slice is a part of a tensor that one thread looks at.
struct Slice {
  const StoredTensor* tensor;
  uint64_t begin, bytes;
  Nans nans{};
};
constexpr uint64_t kSliceBytes = uint64_t{8} << 20;

// Returns the weight's tensors of floats: its numbers, or the scales of its codes.
std::vector<const StoredTensor*> tensors_of(const ManifestWeight& weight, const Checkpoint& checkpoint) {
  const std::optional<WeightType> type = find_weight_type(weight.element);
  std::vector<const StoredTensor*> tensors;
  for (const std::string& name : weight.sources) {
    if (!type || !weight_format(*type).coded()) {
      tensors.push_back(find_plain(checkpoint, name));
      continue;
    }
    const uint64_t rows = weight.rows * weight.stack / weight.sources.size();
    const auto reader = MatrixReader::open(checkpoint, name, *type, rows, weight.cols);
    if (!reader.ok()) continue;
    const std::vector<const StoredTensor*> of_codes = reader.value().float_tensors();
    tensors.insert(tensors.end(), of_codes.begin(), of_codes.end());
  }
  return tensors;
}

}  // namespace

std::vector<FaultyTensor> find_faulty(const Manifest& manifest, const Checkpoint& checkpoint) {
  std::vector<Slice> slices;
  std::set<std::string> seen;
  for (const ManifestWeight& weight : manifest.weights)
    for (const StoredTensor* stored : tensors_of(weight, checkpoint)) {
      if (!seen.insert(stored->name).second) continue;
      for (uint64_t at = 0; at < stored->bytes.size(); at += kSliceBytes)
        slices.push_back({stored, at, std::min<uint64_t>(kSliceBytes, stored->bytes.size() - at)});
    }
  for_each_at_once(slices.size(), [&](size_t i) {
    Slice& s = slices[i];
    s.nans = count_nans(s.tensor->dtype, s.tensor->bytes.subspan(s.begin, s.bytes));
  });
  std::vector<FaultyTensor> faulty;
  for (const Slice& s : slices) {
    if (s.nans.count == 0) continue;
    const uint64_t element_bytes = s.bytes / s.nans.elements;
    if (faulty.empty() || faulty.back().name != s.tensor->name)
      faulty.push_back({s.tensor->name, s.tensor->file, 0, s.begin / element_bytes + s.nans.first});
    faulty.back().count += s.nans.count;
  }
  return faulty;
}

}  // namespace mkrt
