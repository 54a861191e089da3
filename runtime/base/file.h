// Files are mapped read-only, and written whole or not at all.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace mkrt {

// Returns bytes as text. The bytes must outlive it.
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// FileStamp tells versions of a file apart. The system sets `changed_ns` at each write, and no program can
// set it back, unlike `modified_ns`.
struct FileStamp {
  uint64_t inode = 0, bytes = 0;
  int64_t modified_ns = 0, changed_ns = 0;  // since 1970, in ticks of the system of up to 10 ms
  uint32_t mode = 0;                        // permission bits
  bool operator==(const FileStamp&) const = default;
};

// Returns the stamp of the file at a path. Error: the path does not exist or cannot be looked at.
Result<FileStamp> stamp_of(const std::string& path);

// MappedFile is the contents of a file. The mapping lives as long as a copy of the value. Reads fault if
// another process shortens the file meanwhile, as with any mapping.
struct MappedFile {
  std::string path;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> mapping;
  FileStamp stamp{};  // when the file was opened
};

// Returns a read-only mapping of the file. Errors: the path does not exist, cannot be read, or is no regular
// file.
Result<MappedFile> map_file(const std::string& path);

// Tells the system that the whole mapping will be read, in large pages where the file system has some.
void advise_large_pages(const MappedFile& file);

// Returns the whole text of a small file. Errors: those of map_file; the file has more than `max` bytes.
Result<std::string> read_text(const std::string& path, size_t max);

// Returns the path that `path` leads to by links, whether or not it exists. An open descriptor's link, such
// as /proc/self/fd/1 behind /dev/stdout, is returned itself.
std::string behind_links(const std::string& path);

// Returns a template for mkostemp() or mkdtemp(): a short name in the folder of `path`.
std::string temporary_beside(const std::string& path);

// FileWriter writes a temporary file next to `path`, and commit() renames it to `path`. Nothing is left
// without commit(), also when a signal ends the process (runtime/base/temporaries.h).
class FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Writes bytes at an offset. Bytes that are never written are zeros. Several threads may write at once.
  // Error: the file could not be made, or not written; the caller must not commit it.
  Status write(std::span<const std::byte> bytes, uint64_t offset) const;
  // Reserves so much of the disk, makes the file as long, and returns a mapping of its bytes that other
  // processes share. They are zeros at first. Large pages are used where the file system has some. Errors:
  // those of write(); the file system cannot reserve. The mapping may outlive the writer.
  Result<std::shared_ptr<std::byte>> map(uint64_t bytes) const;
  // Locks the temporary file by flock(), until the writer's end. Requires that nothing was written. A file
  // that another process removed meanwhile is made anew. Nothing happens where the system cannot lock.
  void lock();
  // Waits until the system has written all bytes to the disk.
  Status sync() const;
  // Gives the file its name, and those permissions of `mode` that the process's mask leaves.
  Status commit(mode_t mode = 0666);
  // Gives the file its name and exactly these permissions.
  Status commit_exactly(mode_t mode);

 private:
  struct File;
  void make();

  const std::string path_;
  std::unique_ptr<File> file_;
  Status created_;
};

// Writes a temporary file and renames it, so that no reader sees half a file. A file that was there leaves
// its permissions to the new one. A link stays, and the path that it leads to is written.
//
// An open descriptor behind a link, a device or a pipe stays and gets the bytes. Errors: what the system
// reports; a failed write makes no new file.
Status write_file(const std::string& path, std::span<const std::byte> bytes);

// Tells whether nothing has this path. The reader of a path that cannot be followed reports the error.
bool is_absent(const std::string& path);

// Tells, before the bytes are there, whether write_file() could make the file. Errors: the path is a
// directory or cannot be followed; its folder does not exist or takes no files.
Status check_writable(const std::string& path);

}  // namespace mkrt
