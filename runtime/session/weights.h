// Checkpoint tensors are loaded into the weights arena.
#pragma once

#include "runtime/abi/abi.h"
#include "runtime/artefact/manifest.h"
#include "runtime/artefact/safetensors.h"
#include "runtime/device/device.h"
#include "runtime/session/matrix_reader.h"

namespace mkrt {

// Checks that the checkpoint has every tensor that the manifest names, in the type and shape that the kernel
// was compiled for. Errors name the tensor, what was found and what is expected.
Status check_weights(const Manifest& manifest, const Checkpoint& checkpoint);

// Fails for a tensor that the manifest calls a copy of another, and that differs from it. All bytes are
// compared. The error names both, and what the config says.
Status check_copies(const Manifest& manifest, const Checkpoint& checkpoint);

// Returns the checkpoint's scales of e4m3 caches, [caches, heads]. The checkpoint has one scale for all heads
// or one for each head, and a missing scale is 1. The result is empty for caches of other types. Errors: a
// tensor of another type or size, and a scale that is no positive number.
Result<std::vector<float>> cache_scales(const Manifest& manifest, const Checkpoint& checkpoint);

// WeightLoader copies a checkpoint's tensors to the device, where the kernel lays them out, some rows of one
// tensor at a time. Requires check_weights, and that the device has loaded the kernel.
class WeightLoader {
 public:
  // `piece_bytes` limits the rows of one copy; a copy has at least one row.
  WeightLoader(Device& device, const Checkpoint& checkpoint, uint64_t piece_bytes = kPieceBytes)
      : device_(device), checkpoint_(checkpoint), piece_bytes_(piece_bytes) {}
  ~WeightLoader();
  WeightLoader(const WeightLoader&) = delete;
  WeightLoader& operator=(const WeightLoader&) = delete;

  // Lays one weight out at `to` as its manifest entry says. The weight is complete once the device's default
  // stream is done.
  Status load(const ManifestWeight& weight, uint64_t to);

 private:
  static constexpr uint64_t kPieceBytes = 64 << 20;

  Status load_matrix(const ManifestWeight& weight, std::span<const std::string> sources, uint64_t to);
  // Lays out one source of a matrix, at most `max` of its rows at a time.
  Status load_source(const std::string& name, const WeightFormat& format, uint64_t rows, uint64_t max,
                     MkPack pack);
  Status write_scales(const MatrixReader& reader, const MkPack& pack);
  Status load_vector(const ManifestWeight& weight, uint64_t to);
  uint64_t rows_of_piece(uint64_t row_bytes, uint64_t rows) const;
  Status reserve(uint64_t bytes);

  Device& device_;
  const Checkpoint& checkpoint_;
  uint64_t piece_bytes_;
  uint64_t staging_ = 0, staging_bytes_ = 0;  // an MkPack, and rows and their scales behind it
};

// Computes a rope table in float64. Requires out.size() == positions * 2 * inv_freq.size().
void fill_rope(const ManifestRope& rope, std::span<float> out);

}  // namespace mkrt
