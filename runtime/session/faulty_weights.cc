#include "runtime/session/faulty_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "runtime/base/parallel.h"
#include "runtime/device/container_limits.h"
#include "runtime/session/matrix_reader.h"
#include "runtime/session/plain_rows.h"

namespace mkrt {
namespace {

struct Faults {
  uint64_t nans = 0, infinities = 0, first = 0;  // as in FaultyTensor, but within a slice
  uint64_t elements = 0;                         // of the slice
};

// Faulty is the bits, without the sign, of the smallest element of a type that is not finite. `infinity` is
// that element where the type has infinities. All elements above it are NaN.
template <class Bits>
struct Faulty {
  Bits min;
  bool infinity;
};

// Counts the elements of one width that are not finite.
template <class Bits>
Faults count_faults(std::span<const std::byte> bytes, Faulty<Bits> faulty) {
  Faults faults;
  faults.elements = bytes.size() / sizeof(Bits);
  constexpr size_t kBlock = 4096;  // a block's count is one sum without branches
  constexpr auto kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto magnitude = [&](size_t i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
    return static_cast<Bits>(bits & ~kSign);
  };
  bool any = false;
  for (size_t begin = 0; begin < faults.elements; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, faults.elements);
    uint32_t found = 0;
    for (size_t i = begin; i < end; ++i) found += magnitude(i) >= faulty.min;
    for (size_t i = begin; i < end && found != 0; ++i) {
      if (magnitude(i) < faulty.min) continue;
      if (!any) faults.first = i;
      any = true;
      ++(faulty.infinity && magnitude(i) == faulty.min ? faults.infinities : faults.nans);
    }
  }
  return faults;
}

// Counts the elements of a tensor's slice. E4M3 has one NaN of each sign.
Faults count_faults(const std::string& dtype, std::span<const std::byte> bytes) {
  if (dtype == "F8_E4M3") return count_faults<uint8_t>(bytes, {0x7f, false});
  if (dtype == "F32") return count_faults<uint32_t>(bytes, {0x7f800000, true});
  if (dtype == "F16") return count_faults<uint16_t>(bytes, {0x7c00, true});
  if (dtype == "BF16") return count_faults<uint16_t>(bytes, {0x7f80, true});
  return {};
}

// Slice is a part of a tensor that one thread looks at.
struct Slice {
  const StoredTensor* tensor;
  uint64_t begin, bytes;
  Faults faults{};
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
  for_each_at_once(slices.size(), usable_threads(), [&](size_t i) {
    Slice& s = slices[i];
    s.faults = count_faults(s.tensor->dtype, s.tensor->bytes.subspan(s.begin, s.bytes));
  });
  std::vector<FaultyTensor> faulty;
  for (const Slice& s : slices) {
    if (s.faults.nans + s.faults.infinities == 0) continue;
    const uint64_t element_bytes = s.bytes / s.faults.elements;
    if (faulty.empty() || faulty.back().name != s.tensor->name)
      faulty.push_back({s.tensor->name, s.tensor->file, 0, 0, s.begin / element_bytes + s.faults.first});
    faulty.back().nans += s.faults.nans;
    faulty.back().infinities += s.faults.infinities;
  }
  return faulty;
}

std::string warning_of(const FaultyTensor& t) {
  std::string found;
  if (t.nans > 0) found = fmt::format("{} values that are not a number", t.nans);
  if (t.infinities > 0)
    found += fmt::format("{}{} values that are infinite", found.empty() ? "" : " and ", t.infinities);
  return fmt::format("{}: warning: tensor \"{}\" holds {}, the first at element {}", t.file, t.name, found,
                     t.first);
}

}  // namespace mkrt
