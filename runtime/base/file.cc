#include "runtime/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/temporaries.h"

namespace mkrt {
namespace {

Error system_error(const std::string& path, const char* what, int number) {
  return {fmt::format("{}: error: {}: {}", path, what, std::strerror(number))};
}

struct Descriptor {
  int number;
  explicit Descriptor(int n) : number(n) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

// Returns the number of the error, or 0.
int write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return fsync(descriptor) != 0 && errno != EINVAL ? errno : 0;
}

Status write_in_place(const std::string& path, std::span<const std::byte> bytes) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.number < 0) return system_error(path, "cannot write", errno);
  const int failed = write_all(file.number, bytes);
  return failed == 0 ? Status() : Status(system_error(path, "cannot write", failed));
}

}  // namespace

Result<MappedFile> map_file(const std::string& path) {
  // A blocking open of a pipe would wait for its writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) return system_error(path, "cannot open", errno);
  struct stat info;
  if (fstat(file.number, &info) != 0) return system_error(path, "cannot read", errno);
  if (!S_ISREG(info.st_mode)) return Error{fmt::format("{}: error: not a regular file", path)};
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return MappedFile{path, {}, nullptr};
  void* at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (at == MAP_FAILED) return system_error(path, "cannot map", errno);
  std::shared_ptr<const void> mapping(at, [size](const void* p) { munmap(const_cast<void*>(p), size); });
  return MappedFile{path, {static_cast<const std::byte*>(at), size}, std::move(mapping)};
}

Result<std::string> read_text(const std::string& path, size_t max) {
  const Result<MappedFile> file = map_file(path);
  if (!file.ok()) return file.error();
  const std::span<const std::byte> bytes = file.value().bytes;
  if (bytes.size() > max)
    return Error{fmt::format("{}: error: has {} bytes, expected at most {}", path, bytes.size(), max)};
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  struct stat there;
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) return write_in_place(path, bytes);
  std::string temporary = path + ".XXXXXX";
  Descriptor file(mkstemp(temporary.data()));
  const Temporary noted(temporary);
  if (file.number < 0) return system_error(path, "cannot create", errno);
  const mode_t mask = umask(0);
  umask(mask);
  int failed = write_all(file.number, bytes);
  if (failed == 0 && fchmod(file.number, 0666 & ~mask) != 0) failed = errno;
  if (failed == 0 && rename(temporary.c_str(), path.c_str()) != 0) failed = errno;
  if (failed == 0) return {};
  unlink(temporary.c_str());
  return system_error(path, "cannot write", failed);
}

}  // namespace mkrt
