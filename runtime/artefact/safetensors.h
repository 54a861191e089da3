// Checkpoints in safetensors form are read by mmap (github.com/huggingface/safetensors, "Format").
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

// Checkpoint holds the tensors of one checkpoint. The tensors' bytes live as long as the object does.
struct Checkpoint {
  std::string directory;
  std::vector<StoredTensor> tensors;  // sorted by name
  std::vector<MappedFile> files;
  MappedFile config{};  // config.json; an empty path where there is none

  const StoredTensor* find(std::string_view name) const;  // nullptr where absent
};

// Opens model.safetensors, or every shard that model.safetensors.index.json names. Headers are validated in
// full: a file's tensors must fill its data without gap or overlap.
//
// Errors name file and tensor:
// - a file that is missing or unreadable
// - an adapter beside the weights (adapter_config.json)
// - a header that is truncated, too large, no JSON, or has other keys
// - an unknown dtype
// - a size that overflows, or differs from that of shape and dtype
// - a name given twice
// - an index whose shards are not plain file names, or hold other tensors than it says
Result<Checkpoint> open_checkpoint(const std::string& directory);

// Returns the tensors of one file, in the order of their names. Errors: those of open_checkpoint() about a
// file's contents.
Result<std::vector<StoredTensor>> read_tensors(const MappedFile& file);

}  // namespace mkrt
