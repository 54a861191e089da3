// Quantized checkpoints consist of safetensors files (github.com/huggingface/safetensors, "Format").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/artefact/safetensors.h"
#include "tools/quantize/matrices.h"

namespace mkc::quantize {

struct ShardTensor {
  std::string name, dtype;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
  uint64_t offset = 0;  // in the file
};

// Role is what a tensor of the file has of a tensor of the source.
enum class Role : uint8_t { kCopy, kCodes, kScales, kShape };

struct ShardSource {
  const mkrt::StoredTensor* tensor;
  std::string name;  // of what the file has of it
  bool quantized;
  std::vector<std::pair<Role, size_t>> made{};  // numbers in Shard::tensors
};

struct Shard {
  std::string name;    // of the file, the same as that of the source
  uint32_t mode;       // permissions of the source's file
  std::string header;  // the file's bytes before its data
  std::vector<ShardTensor> tensors;
  std::vector<ShardSource> sources;
  uint64_t bytes = 0;  // of all tensors
};

// Returns the files that hold what the checkpoint's files hold, with the chosen matrices in their format. A
// head that is made of the embedding lies in the embedding's file. It takes the place of a tensor of its
// name. Errors: a matrix that is not of F32, F16 or BF16, or whose columns the format's groups do not divide;
// stacked matrices where the format has no form for them.
mkrt::Result<std::vector<Shard>> plan_shards(const mkrt::Checkpoint& checkpoint, const Matrices& matrices);

}  // namespace mkc::quantize
