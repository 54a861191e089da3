// Files: read-only mappings, and writes that leave the whole file or none.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace mkrt {

// MappedFile is the contents of a file. The mapping lives as long as a copy of the value. Reads fault if
// another process shortens the file meanwhile, as with any mapping.
struct MappedFile {
  std::string path;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> mapping;
};

// Returns a read-only mapping of the file. Errors: the path does not exist, cannot be read, or is no regular
// file.
Result<MappedFile> map_file(const std::string& path);

// Returns the whole text of a small file. Errors: those of map_file; the file has more than `max` bytes.
Result<std::string> read_text(const std::string& path, size_t max);

// Writes a temporary file next to `path` and renames it, so that no reader sees half a file. A link to a file
// is replaced by the file.
//
// An existing path that is no regular file, such as a device or a pipe, stays and gets the bytes. Errors:
// what the system reports; a failed write makes no new file.
Status write_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace mkrt
