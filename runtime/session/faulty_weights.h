// Weights are searched for elements that are not a number or infinite.
#pragma once

#include <string>
#include <vector>

#include "runtime/artefact/manifest.h"
#include "runtime/artefact/safetensors.h"

namespace mkrt {

struct FaultyTensor {
  std::string name, file;
  uint64_t nans = 0;        // elements that are not a number
  uint64_t infinities = 0;  // elements that are infinite, of either sign
  uint64_t first = 0;       // index of the first of them in the stored tensor
};

// Returns the checkpoint's tensors with such elements, each once, in the order of the manifest's weights.
// Reads every byte of the weights. Requires check_weights.
std::vector<FaultyTensor> find_faulty(const Manifest& manifest, const Checkpoint& checkpoint);

// Returns a warning, `FILE: warning: …`, that says what a tensor holds.
std::string warning_of(const FaultyTensor& tensor);

}  // namespace mkrt
