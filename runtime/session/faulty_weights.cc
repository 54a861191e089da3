#include "runtime/session/faulty_weights.h"

#include <cstring>
#include <optional>
#include <set>

#include "runtime/session/matrix_reader.h"
#include "runtime/session/plain_rows.h"

namespace mkrt {
namespace {

// Counts the elements of one width that are not a number: their bits without the sign are above `exponent`.
// A NaN of an IEEE type has all exponent bits and some other bit set. E4M3 has one NaN of each sign.
template <class Bits>
void count_nans(std::span<const std::byte> bytes, Bits exponent, FaultyTensor& tensor) {
  constexpr size_t kBlock = 4096;  // a block's count is one sum without branches
  constexpr auto kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const size_t elements = bytes.size() / sizeof(Bits);
  const auto is_nan = [&](size_t i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
    return static_cast<Bits>(bits & ~kSign) > exponent;
  };
  for (size_t begin = 0; begin < elements; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, elements);
    uint32_t found = 0;
    for (size_t i = begin; i < end; ++i) found += is_nan(i);
    for (size_t i = begin; i < end && found != 0 && tensor.count == 0; ++i)
      if (is_nan(i)) tensor.first = i, tensor.count = found, found = 0;
    tensor.count += found;
  }
}

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
  std::vector<FaultyTensor> faulty;
  std::set<std::string> seen;
  for (const ManifestWeight& weight : manifest.weights)
    for (const StoredTensor* at : tensors_of(weight, checkpoint)) {
      const StoredTensor& stored = *at;
      if (!seen.insert(stored.name).second) continue;
      FaultyTensor tensor{stored.name, stored.file};
      if (stored.dtype == "F8_E4M3") count_nans<uint8_t>(stored.bytes, 0x7e, tensor);
      if (stored.dtype == "F32") count_nans<uint32_t>(stored.bytes, 0x7f800000, tensor);
      if (stored.dtype == "F16") count_nans<uint16_t>(stored.bytes, 0x7c00, tensor);
      if (stored.dtype == "BF16") count_nans<uint16_t>(stored.bytes, 0x7f80, tensor);
      if (tensor.count != 0) faulty.push_back(std::move(tensor));
    }
  return faulty;
}

}  // namespace mkrt
