// Weights that are not a number.
#pragma once

#include <string>
#include <vector>

#include "runtime/artefact/manifest.h"
#include "runtime/artefact/safetensors.h"

namespace mkrt {

struct FaultyTensor {
  std::string name, file;
  uint64_t count = 0;  // of its elements that are not a number
  uint64_t first = 0;  // the first of them, counted along the stored tensor
};

// Those that the manifest takes weights from, in its order, each once. Infinities are numbers. Reads every
// byte of the weights. Requires check_weights.
std::vector<FaultyTensor> find_faulty(const Manifest& manifest, const Checkpoint& checkpoint);

}  // namespace mkrt
