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
// used least recently are removed, and so are temporary files that their process left an hour ago. Younger
// ones stay and count. Files that mkc did not write stay as they are.
//
// Errors: the folder cannot be made; the file is larger than the limit, alone or beside files that others are
// writing, or larger than files of this process may be;
// the disk has too little free space. No file of kept weights is removed then.
Status make_room(const KeptFolder& folder, const std::string& name, uint64_t bytes);

// Notes that a file of the folder was used now. Failures are ignored.
void note_use(const std::string& path);

}  // namespace mkrt
