// Checkpoints in safetensors form, read by mmap. Format: github.com/huggingface/safetensors, "Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"

namespace mkrt {

struct StoredTensor {
  std::string name;
  std::string dtype;           // as in the file: "BF16", "F16", "F32", "I64", …
  std::vector<int64_t> shape;  // row-major
  std::string file;
  std::span<const std::byte> bytes;
};

// The tensors of one checkpoint; their bytes live as long as this does.
struct Checkpoint {
  std::string directory;
  std::vector<StoredTensor> tensors;  // sorted by name
  std::vector<MappedFile> files;

  const StoredTensor* find(std::string_view name) const;  // nullptr where absent
};

// Opens model.safetensors, or every shard that model.safetensors.index.json names. Headers are validated in
// full: the tensors of a file must fill its data without gap or overlap.
// Errors, each naming file and tensor: missing or unreadable files; a header that is truncated, too large, no
// JSON or has other keys; unknown dtypes; sizes that overflow, or differ from what shape and dtype say; names
// given twice; an index whose shards are not plain file names, or do not hold what it says.
Result<Checkpoint> open_checkpoint(const std::string& directory);

}  // namespace mkrt
