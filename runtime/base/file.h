// Files: read-only mappings, and writing that leaves the whole file or none.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace mkrt {

// Contents of a file, mapped for as long as a copy of the value lives. Another process that shortens the file
// meanwhile makes reads of it fault, as with any mapping.
struct MappedFile {
  std::string path;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> mapping;
};

// Errors: not there, not readable, not a regular file.
Result<MappedFile> map_file(const std::string& path);

// Whole text of a small file. Errors: those of map_file; more than `max` bytes.
Result<std::string> read_text(const std::string& path, size_t max);

// Writes next to `path` and renames, so that nobody sees half a file; a link to a file gives way to the file.
// What is there and is no file, as a device or a pipe, stays and gets the bytes. Errors: whatever the system
// says; then there is no new file.
Status write_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace mkrt
