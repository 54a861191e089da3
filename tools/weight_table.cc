#include "tools/weight_table.h"

#include <algorithm>

#include "tools/output.h"

namespace mkc {
namespace {

// Returns a name "l12.wq" with `*` for the layer's number.
std::string without_layer(const std::string& name) {
  const size_t end = name.find_first_not_of("0123456789", 1);
  const bool layer = name.starts_with('l') && end > 1 && end < name.size() && name[end] == '.';
  return layer ? "l*" + name.substr(end) : name;
}

std::string shape_of(const mkrt::ManifestWeight& w) {
  if (w.layout == mkrt::WeightLayout::kVector)
    return w.stack > 1 ? fmt::format("[{}, {}]", w.stack, w.cols) : fmt::format("[{}]", w.cols);
  return w.stack > 1 ? fmt::format("[{}, {}, {}]", w.stack, w.rows, w.cols)
                     : fmt::format("[{}, {}]", w.rows, w.cols);
}

}  // namespace

std::vector<WeightKind> weight_kinds(std::span<const mkrt::ManifestWeight> weights) {
  std::vector<WeightKind> kinds;
  for (const mkrt::ManifestWeight& w : weights) {
    const WeightKind kind{without_layer(w.name), mkrt::element_name(w.element), shape_of(w)};
    auto at = std::ranges::find_if(kinds, [&](const WeightKind& k) {
      return k.name == kind.name && k.format == kind.format && k.shape == kind.shape;
    });
    if (at == kinds.end()) at = kinds.insert(at, kind);
    ++at->weights, at->bytes += w.bytes;
  }
  return kinds;
}

void print_weights(std::span<const mkrt::ManifestWeight> weights) {
  uint64_t bytes = 0;
  print_out("{:<24} {:>6} {:<18} {:<22} {:>14}\n", "weight", "alike", "format", "shape", "bytes of all");
  for (const WeightKind& k : weight_kinds(weights)) {
    print_out("{:<24} {:>6} {:<18} {:<22} {:>14}\n", k.name, k.weights, k.format, k.shape, k.bytes);
    bytes += k.bytes;
  }
  print_out("{:<24} {:>6} {:<18} {:<22} {:>14}\n", "all", weights.size(), "", "", bytes);
}

}  // namespace mkc
