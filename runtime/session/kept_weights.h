// Packed weights are kept in files, so that later sessions of a checkpoint need not pack them
// (docs/processor.md).
#pragma once

#include <optional>
#include <vector>

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

// Writes the weights arena at `arena` of the device to the kept file of a key. Readers see the file as a
// whole or not at all. Errors: those of make_room() and of writing; those of check_stamps(). No file is left
// then.
Status keep_weights(const KeptFolder& folder, const KeptKey& key, Device& device, uint64_t arena,
                    const Manifest& manifest, const Checkpoint& checkpoint,
                    const std::vector<FaultyTensor>& faulty);

}  // namespace mkrt
