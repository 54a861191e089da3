// config.json says which version of GPTQ's zero points a checkpoint has.
#pragma once

#include <cstdint>

#include "runtime/artefact/safetensors.h"

namespace mkrt {

// Returns what is added to each place of a word of zero points: 0 for checkpoint_format, or else format,
// "gptq_v2". Returns 1 for all others, whose words had 1 taken from each place, as from one number. Errors: a
// checkpoint without config.json, or none of JSON.
Result<uint32_t> gptq_zero_offset(const Checkpoint& checkpoint);

}  // namespace mkrt
