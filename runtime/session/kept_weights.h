// Packed weights are kept in files, so that later sessions of a checkpoint need not pack them
// (docs/processor.md).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/session/faulty_weights.h"
#include "runtime/session/kept_folder.h"
#include "runtime/session/kept_key.h"

namespace mkrt {

// KeptWeights is a weights arena in a file.
struct KeptWeights {
  MappedFile file;
  uint64_t arena_at = 0;             // offset of the arena, which ends with the file
  std::vector<FaultyTensor> faulty;  // what find_faulty() said when the file was made
};

// Returns the path of the kept file of a key: FOLDER/PLACE.weights.
std::string kept_path(const KeptFolder& folder, const KeptKey& key);

// Returns the kept weights of a key, or nothing if there are none, or those of other contents. Every byte is
// checked against its hash. A file that is found counts as used now.
//
// Errors: the file is unreadable, is no kept file, is truncated, or differs from its hashes.
Result<std::optional<KeptWeights>> find_kept(const KeptFolder& folder, const KeptKey& key,
                                             const Manifest& manifest, const Checkpoint& checkpoint);

// KeptFile is a kept file that is being made. Readers see the file as a whole or not at all: nothing is left
// of it without commit(). Its arena is either mapped, and whoever has the mapping fills it, or written.
class KeptFile {
 public:
  // Makes room for the file of a key, and the file. Errors: those of make_room(); it cannot be made.
  static Result<KeptFile> create(const KeptFolder& folder, const KeptKey& key, const Manifest& manifest,
                                 std::vector<FaultyTensor> faulty);

  // Maps the file, and returns the arena, which is zeros. Errors: those of FileWriter::map().
  Result<std::span<std::byte>> map();
  // Writes the arena from a device's memory. Requires no map(). Errors: those of the device and of writing.
  Status write(Device& device, uint64_t arena);
  // Gives the file its name. The arena is complete. Errors: those of writing and of check_stamps().
  Status commit(const Checkpoint& checkpoint);

  // Returns the file as find_kept() does, from now on only to read. Requires map().
  MappedFile mapped() const;
  uint64_t arena_at() const { return arena_at_; }

 private:
  KeptFile(const std::string& path, const KeptKey& key)
      : path_(path), key_(key), file_(std::make_unique<FileWriter>(path)) {}

  std::string path_;
  KeptKey key_;
  std::unique_ptr<FileWriter> file_;
  std::vector<FaultyTensor> faulty_;
  std::vector<std::string> hashes_;
  uint64_t arena_at_ = 0, arena_bytes_ = 0;
  std::shared_ptr<std::byte> mapping_;
};

}  // namespace mkrt
