// Kept weights lie in a folder with limits, where least recently used files give way to new ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/status.h"

namespace mkrt {

struct KeptFolder {
  std::string path;                     // empty: no weights are kept
  std::optional<uint64_t> max_bytes{};  // of all files; default: a quarter of what they and others could have
  uint64_t reserve_bytes = uint64_t{2} << 30;  // space of the disk that stays free
};

// Makes the folder where there is none, and room in it for a file `name` of so many bytes. Files that were
// used least recently are removed. Files that mkc did not write stay as they are.
//
// Temporary files that no process has locked are removed, too, and locked ones stay and count. Where the file
// system has no locks, those of the last hour stay.
//
// Errors: the folder cannot be made; the disk has too little free space. A file that is larger than the
// limit, or than files of this process may be, is one, too. Files that others are writing count to the limit.
// No file of kept weights is removed then.
Status make_room(const KeptFolder& folder, const std::string& name, uint64_t bytes);

// Notes that a file of the folder was used now. Failures are ignored.
void note_use(const std::string& path);

}  // namespace mkrt
