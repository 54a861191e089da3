// From checkpoint tensors to the weights arena.
#pragma once

#include "runtime/manifest.h"
#include "runtime/safetensors.h"

namespace mkrt {

// The checkpoint has every tensor that the manifest names, in the type and shape that the kernel was compiled
// for. Errors name the tensor, what was found and what is expected.
Status check_weights(const Manifest& manifest, const Checkpoint& checkpoint);

// The scales of e4m3 caches that the checkpoint has, [caches, heads]: one number for all heads, or one for
// each; 1 where it has none. Empty for caches of other types. Errors: a tensor of another type or size.
Result<std::vector<float>> cache_scales(const Manifest& manifest, const Checkpoint& checkpoint);

// Lays one weight out as its manifest entry says. Requires check_weights, and out.size() == weight.bytes.
void pack_weight(const ManifestWeight& weight, const Checkpoint& checkpoint, std::span<std::byte> out);

// Computes a rope table in float64. Requires out.size() == positions * 2 * inv_freq.size().
void fill_rope(const ManifestRope& rope, std::span<float> out);

}  // namespace mkrt
