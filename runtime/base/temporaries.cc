#include "runtime/base/temporaries.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace mkrt {
namespace {

enum State { kFree, kTaken, kNoted };

// Slots are a fixed array of atomics and paths, because a signal handler may neither lock nor allocate.
struct Slot {
  std::atomic<int> state = kFree;
  char path[4096];
};
std::array<Slot, 64> slots;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// The removal of a folder is tried more than once: other threads may add a file while a handler empties it.
constexpr int kTries = 16;

std::atomic<int> making_count = 0;
std::atomic<bool> ending = false;
// The end of the process waits this long for threads that make paths: one of them may have failed inside.
constexpr int kMakingMilliseconds = 1000;

// Removes a folder's files by system calls alone, because opendir() allocates.
void remove_files(const char* folder) {
  const int number = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (number < 0) return;
  alignas(dirent64) char entries[4096];
  for (ssize_t bytes; (bytes = getdents64(number, entries, sizeof(entries))) > 0;)
    for (ssize_t at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      unlinkat(number, entry->d_name, 0);  // "." and ".." are refused
      at += entry->d_reclen;
    }
  close(number);
}

void remove(const char* path) {
  if (unlink(path) == 0) return;
  for (int i = 0; i < kTries && rmdir(path) != 0 && errno == ENOTEMPTY; ++i) remove_files(path);
}

// Returns the directory for temporary files.
std::string parent_folder() {
  for (const char* variable : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"})
    if (const char* folder = getenv(variable); folder && *folder) return folder;
  return "/tmp";
}

std::string make_folder(std::string& fault) {
  const std::string parent = parent_folder();
  std::string name = (std::filesystem::path(parent) / "mkc-XXXXXX").string();
  if (mkdtemp(name.data())) return name;
  fault = "no folder for temporary files can be made in " + parent + ": " + std::strerror(errno);
  return "";
}

}  // namespace

MakingTemporary::MakingTemporary() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before_);
  ++making_count;
  if (!ending) return;
  --making_count;
  while (true) poll(nullptr, 0, -1);
}

MakingTemporary::~MakingTemporary() {
  --making_count;
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

Temporary::Temporary(const std::string& path) : slot_(-1) {
  if (path.size() >= sizeof(Slot::path)) return;
  for (size_t i = 0; i < slots.size(); ++i) {
    int free = kFree;
    if (!slots[i].state.compare_exchange_strong(free, kTaken)) continue;
    std::memcpy(slots[i].path, path.c_str(), path.size() + 1);
    slots[i].state = kNoted;
    slot_ = static_cast<int>(i);
    return;
  }
}

Temporary::~Temporary() {
  if (slot_ >= 0) slots[static_cast<size_t>(slot_)].state = kFree;
}

TemporaryFolder::TemporaryFolder(const MakingTemporary&) : path(make_folder(fault_)), noted_(path) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path.empty()) std::filesystem::remove_all(path, ignored);
}

void remove_temporaries() {
  for (size_t i = slots.size(); i-- > 0;)
    if (slots[i].state == kNoted) remove(slots[i].path);
}

void remove_temporaries_at_end() {
  ending = true;
  for (int waited = 0; making_count != 0 && waited < kMakingMilliseconds; ++waited) poll(nullptr, 0, 1);
  remove_temporaries();
}

}  // namespace mkrt
