#include "runtime/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
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

FileStamp stamp_from(const struct stat& info) {
  const auto ns = [](const timespec& t) { return int64_t{1'000'000'000} * t.tv_sec + t.tv_nsec; };
  return {info.st_ino, static_cast<uint64_t>(info.st_size), ns(info.st_mtim), ns(info.st_ctim),
          info.st_mode & 07777};
}

// Calls `put` for the bytes that are left, until none are. Returns the number of the error, or 0.
template <class Put>
int put_all(std::span<const std::byte> bytes, const Put& put) {
  while (!bytes.empty()) {
    const ssize_t written = put(bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return 0;
}

// Returns the number of the error, or 0. Files such as pipes have nothing to wait for.
int sync_file(int descriptor) {
  return fsync(descriptor) != 0 && errno != EINVAL ? errno : 0;
}

// Returns the process's mask of permissions. umask() would change it for files that other threads make.
mode_t mask_of_process() {
  constexpr std::string_view kKey = "Umask:";
  std::ifstream facts("/proc/self/status");
  for (std::string line; std::getline(facts, line);)
    if (line.starts_with(kKey))
      return static_cast<mode_t>(std::strtoul(line.c_str() + kKey.size(), nullptr, 8));
  return 077;
}

namespace fs = std::filesystem;

constexpr const char* kOwnDescriptors = "/proc/self/fd";
constexpr int kMaxLinks = 40;       // as many as Linux follows
constexpr size_t kMaxPrefix = 100;  // bytes of a name that its temporary file's name begins with

// Returns the folder of the path, without links.
fs::path folder_of(const fs::path& path) {
  std::error_code failed;
  return fs::canonical(path.has_parent_path() ? path.parent_path() : ".", failed);
}

// Tells whether a path is the link of a process's open descriptor, in /proc/PID/fd or /proc/PID/task/TID/fd.
bool is_descriptor(const fs::path& path) {
  const std::string folder = folder_of(path).string();
  return folder.starts_with("/proc/") && folder.ends_with("/fd");
}

// Opens a file whose bytes replace none. A descriptor of this process keeps its position.
int open_in_place(const std::string& path) {
  std::error_code failed;
  if (!is_descriptor(path)) return open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (folder_of(path) != fs::canonical(kOwnDescriptors, failed))
    return open(path.c_str(), O_WRONLY | O_CLOEXEC | O_TRUNC);
  const std::string name = fs::path(path).filename();
  int descriptor = -1;
  std::from_chars(name.data(), name.data() + name.size(), descriptor);
  return fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
}

Status write_in_place(const std::string& path, std::span<const std::byte> bytes) {
  const Descriptor file(open_in_place(path));
  if (file.number < 0) return system_error(path, "cannot write", errno);
  int failed = put_all(bytes, [&](auto left) { return write(file.number, left.data(), left.size()); });
  if (failed == 0) failed = sync_file(file.number);
  return failed == 0 ? Status() : Status(system_error(path, "cannot write", failed));
}

}  // namespace

Result<FileStamp> stamp_of(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return system_error(path, "cannot read", errno);
  return stamp_from(info);
}

Result<MappedFile> map_file(const std::string& path) {
  // A blocking open of a pipe would wait for its writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) return system_error(path, "cannot open", errno);
  struct stat info;
  if (fstat(file.number, &info) != 0) return system_error(path, "cannot read", errno);
  if (!S_ISREG(info.st_mode)) return Error{fmt::format("{}: error: not a regular file", path)};
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return MappedFile{path, {}, nullptr, stamp_from(info)};
  void* at = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (at == MAP_FAILED) return system_error(path, "cannot map", errno);
  std::shared_ptr<const void> mapping(at, [size](const void* p) { munmap(const_cast<void*>(p), size); });
  return MappedFile{path, {static_cast<const std::byte*>(at), size}, std::move(mapping), stamp_from(info)};
}

void advise_large_pages(const MappedFile& file) {
  if (file.mapping) madvise(const_cast<void*>(file.mapping.get()), file.bytes.size(), MADV_HUGEPAGE);
}

Result<std::string> read_text(const std::string& path, size_t max) {
  const Result<MappedFile> file = map_file(path);
  if (!file.ok()) return file.error();
  const std::span<const std::byte> bytes = file.value().bytes;
  if (bytes.size() > max)
    return Error{fmt::format("{}: error: has {} bytes, expected at most {}", path, bytes.size(), max)};
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string behind_links(const std::string& path) {
  fs::path at = path;
  std::error_code failed;
  for (int i = 0; i < kMaxLinks && fs::is_symlink(fs::symlink_status(at, failed)) && !is_descriptor(at); ++i)
    at = at.parent_path() / fs::read_symlink(at, failed);
  return at.string();
}

std::string temporary_beside(const std::string& path) {
  const size_t begin = path.rfind('/') + 1;  // 0 without a slash
  size_t end = std::min(path.size(), begin + kMaxPrefix);
  const auto cuts_character = [&] { return (static_cast<unsigned char>(path[end]) & 0xC0) == 0x80; };
  while (end < path.size() && end > begin && cuts_character()) --end;
  return path.substr(0, end) + ".XXXXXX";
}

struct FileWriter::File {
  std::string path;  // of the temporary file
  Descriptor descriptor;
  Temporary noted;
  bool renamed = false;

  explicit File(const std::string& beside, const MakingTemporary& = MakingTemporary())
      : path(temporary_beside(beside)), descriptor(mkostemp(path.data(), O_CLOEXEC)), noted(path) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor.number >= 0 && !renamed) unlink(path.c_str());
  }
};

FileWriter::FileWriter(const std::string& path) : path_(path) {
  make();
}

void FileWriter::make() {
  file_ = std::make_unique<File>(path_);
  if (file_->descriptor.number < 0) created_ = system_error(path_, "cannot create", errno);
}

FileWriter::~FileWriter() = default;

Status FileWriter::write(std::span<const std::byte> bytes, uint64_t offset) const {
  if (!created_.ok()) return created_;
  const int failed = put_all(bytes, [&](auto left) {
    const uint64_t at = offset + (bytes.size() - left.size());
    return pwrite(file_->descriptor.number, left.data(), left.size(), static_cast<off_t>(at));
  });
  return failed == 0 ? Status() : Status(system_error(path_, "cannot write", failed));
}

Result<std::shared_ptr<std::byte>> FileWriter::map(uint64_t bytes) const {
  if (!created_.ok()) return created_.error();
  const int file = file_->descriptor.number;
  // A write to a page that has no place on a full disk would end the process.
  if (fallocate(file, 0, 0, static_cast<off_t>(bytes)) != 0)
    return system_error(path_, "cannot reserve", errno);
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) return system_error(path_, "cannot map", errno);
  madvise(at, bytes, MADV_HUGEPAGE);
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(at), [bytes](void* p) { munmap(p, bytes); });
}

void FileWriter::lock() {
  while (created_.ok()) {
    struct stat info;
    const int file = file_->descriptor.number;
    const bool is_locked = flock(file, LOCK_EX) == 0;
    if (!is_locked && errno == EINTR) continue;
    if (!is_locked || fstat(file, &info) != 0 || info.st_nlink > 0) return;
    make();
  }
}

Status FileWriter::sync() const {
  if (!created_.ok()) return created_;
  const int failed = sync_file(file_->descriptor.number);
  return failed == 0 ? Status() : Status(system_error(path_, "cannot write", failed));
}

Status FileWriter::commit(mode_t mode) {
  return commit_exactly(mode & ~mask_of_process());
}

Status FileWriter::commit_exactly(mode_t mode) {
  if (!created_.ok()) return created_;
  if (fchmod(file_->descriptor.number, mode) != 0 || rename(file_->path.c_str(), path_.c_str()) != 0)
    return system_error(path_, "cannot write", errno);
  file_->renamed = true;
  return {};
}

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  struct stat there;
  const std::string target = behind_links(path);
  const bool exists = stat(target.c_str(), &there) == 0;
  if (!exists && errno != ENOENT) return system_error(path, "cannot create", errno);
  if (exists && (!S_ISREG(there.st_mode) || is_descriptor(target))) return write_in_place(target, bytes);
  FileWriter file(target);
  if (Status status = file.write(bytes, 0); !status.ok()) return status;
  if (Status status = file.sync(); !status.ok()) return status;
  return exists ? file.commit_exactly(there.st_mode & 0777) : file.commit();
}

bool is_absent(const std::string& path) {
  std::error_code failed;
  return !std::filesystem::exists(path, failed) && !failed;
}

Status check_writable(const std::string& path) {
  struct stat there;
  const std::string target = behind_links(path);
  const bool exists = stat(target.c_str(), &there) == 0;
  if (!exists && errno != ENOENT) return system_error(path, "cannot create", errno);
  if (exists && S_ISDIR(there.st_mode)) return system_error(path, "cannot write", EISDIR);
  if (exists && (!S_ISREG(there.st_mode) || is_descriptor(target))) return {};
  const size_t slash = target.rfind('/');
  const std::string folder = slash == target.npos ? "." : target.substr(0, slash) + "/.";
  return access(folder.c_str(), W_OK | X_OK) == 0 ? Status()
                                                  : Status(system_error(path, "cannot create", errno));
}

}  // namespace mkrt
