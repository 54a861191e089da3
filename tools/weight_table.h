// A table shows people the weights of a model: format and bytes of each.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/artefact/manifest.h"

namespace mkc {

// Weights of repeated layers that differ by the number of the layer alone are one kind, with `*` for the
// number in their name.
struct WeightKind {
  std::string name, format, shape;
  uint64_t weights = 0, bytes = 0;  // of all weights of the kind
};

// Returns the kinds of weights, in the order of their first places.
std::vector<WeightKind> weight_kinds(std::span<const mkrt::ManifestWeight> weights);

// Prints a line for each kind of weight.
void print_weights(std::span<const mkrt::ManifestWeight> weights);

}  // namespace mkc
