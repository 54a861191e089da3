// The weights of a model as people read them: format and bytes of each.
#pragma once

#include <span>

#include "runtime/artefact/manifest.h"

namespace mkc {

// Prints a line for each kind of weight, in the order of their first places. Weights of repeated layers that
// differ by the number of the layer alone are one kind, with `*` for the number.
void print_weights(std::span<const mkrt::ManifestWeight> weights);

}  // namespace mkc
