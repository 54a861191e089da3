#include "runtime/session/kept_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <vector>

#include "runtime/base/entry_name.h"

namespace mkrt {
namespace {

namespace fs = std::filesystem;

constexpr auto kLeftBehind = std::chrono::hours(1);  // a file is written in less where locks tell nothing

struct Entry {
  fs::path path;
  fs::file_time_type used;
  uint64_t bytes = 0;
};

// Returns the folder's kept weights and their temporary files, those that were used least recently first. The
// folder may have other files, which are not mkc's.
std::vector<Entry> entries_of(const std::string& folder) {
  std::vector<Entry> entries;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    if (!ending_of_entry(at->path().filename().native()).starts_with(".weights")) continue;
    std::error_code gone;
    const Entry entry{at->path(), at->last_write_time(gone), at->file_size(gone)};
    if (!gone) entries.push_back(entry);
  }
  std::ranges::sort(entries, {}, &Entry::used);
  return entries;
}

bool is_temporary(const Entry& entry) {
  return entry.path.extension() != ".weights";
}

// Removes a temporary file that no process writes. The lock keeps a process that has just made the file
// waiting, so that it sees the loss (FileWriter::lock()).
void remove_left_behind(const Entry& entry) {
  const int descriptor = open(entry.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const bool is_free = descriptor >= 0 && flock(descriptor, LOCK_SH | LOCK_NB) == 0;
  const bool is_locked = descriptor >= 0 && !is_free && errno == EWOULDBLOCK;
  const bool is_old = fs::file_time_type::clock::now() - entry.used > kLeftBehind;
  std::error_code ignored;
  if (is_free || (!is_locked && is_old)) fs::remove(entry.path, ignored);
  if (descriptor >= 0) close(descriptor);
}

std::string size_text(uint64_t bytes) {
  if (bytes < 1'000'000) return fmt::format("{} bytes", bytes);
  const auto size = static_cast<double>(bytes);
  return size < 1e9 ? fmt::format("{:.1f} MB", size / 1e6) : fmt::format("{:.1f} GB", size / 1e9);
}

}  // namespace

Status make_room(const KeptFolder& folder, const std::string& name, uint64_t bytes) {
  const auto fail = [&](const std::string& what) {
    return Error{fmt::format("{}: error: {}", folder.path, what)};
  };
  std::error_code failed;
  fs::create_directories(folder.path, failed);
  if (failed) return fail("cannot create: " + failed.message());
  const fs::space_info space = fs::space(folder.path, failed);
  if (failed) return fail("cannot read: " + failed.message());
  for (const Entry& entry : entries_of(folder.path))
    if (is_temporary(entry)) remove_left_behind(entry);
  std::vector<Entry> entries = entries_of(folder.path);
  uint64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  const uint64_t max = folder.max_bytes.value_or((space.available + total) / 4);
  if (bytes > max)
    return fail(fmt::format("weights of {} are more than the limit of {} for kept weights", size_text(bytes),
                            size_text(max)));
  // The old file of this name stays until the new one takes its place, but only the new one counts.
  const auto own = std::ranges::find_if(entries, [&](const Entry& e) { return e.path.filename() == name; });
  if (own != entries.end()) {
    total -= own->bytes;
    entries.erase(own);
  }
  std::erase_if(entries, is_temporary);  // they count, and another process needs them
  rlimit of_file{};
  if (getrlimit(RLIMIT_FSIZE, &of_file) == 0 && bytes > of_file.rlim_cur)
    return fail(fmt::format("weights of {} bytes are more than the {} that this process may write to a file",
                            bytes, of_file.rlim_cur));
  uint64_t removable = 0;
  size_t removed = 0;
  for (; removed < entries.size() && total - removable + bytes > max; ++removed)
    removable += entries[removed].bytes;
  if (total - removable + bytes > max)
    return fail(fmt::format("weights of {}, and {} that others are packing, are more than the limit of {}",
                            size_text(bytes), size_text(total - removable), size_text(max)));
  if (space.available + removable < bytes + folder.reserve_bytes)
    return fail(fmt::format("weights of {} leave less than {} of the disk's {} free", size_text(bytes),
                            size_text(folder.reserve_bytes), size_text(space.available)));
  for (size_t i = 0; i < removed; ++i) fs::remove(entries[i].path, failed);
  return {};
}

void note_use(const std::string& path) {
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
}

}  // namespace mkrt
