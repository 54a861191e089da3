#include "tools/quantize/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/base/temporaries.h"

namespace mkc::quantize {
namespace {

namespace fs = std::filesystem;
using mkrt::Error;
using mkrt::Result;
using mkrt::Status;

constexpr const char *kConfig = "config.json", *kIndex = "model.safetensors.index.json";
constexpr const char* kSingle = "model.safetensors";
constexpr const char* kOwn = ".mkc.";  // begins the name of the new folder in the output
constexpr size_t kRandom = 6;          // characters behind it, which mkdtemp() chooses

Error folder_fault(const std::string& path, const std::string& what) {
  return {fmt::format("{}: error: {}", path, what)};
}

Status write_text(const std::string& path, const std::string& text) {
  return mkrt::write_file(path, std::as_bytes(std::span(text)));
}

// Tells whether a file has weights, which are not those of the quantized checkpoint.
bool has_weights(const std::string& name) {
  static constexpr std::array kEndings = {".safetensors", ".safetensors.index.json",
                                          ".bin",         ".bin.index.json",
                                          ".pt",          ".pth",
                                          ".gguf",        ".h5",
                                          ".msgpack",     ".onnx",
                                          ".onnx_data",   ".ckpt",
                                          ".npz",         ".ot",
                                          ".pkl"};
  return std::ranges::any_of(kEndings, [&](const char* ending) { return name.ends_with(ending); });
}

// Returns the name of an entry of the directory, beside that of `own`, or "".
std::string other_entry(const fs::path& directory, const fs::path& own, std::error_code& failed) {
  for (fs::directory_iterator at(directory, failed), end; !failed && at != end; at.increment(failed))
    if (at->path().filename() != own.filename()) return at->path().filename().string();
  return "";
}

// Renames a file where nothing has the new name. Returns the number of the error, or 0.
int move_file(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;  // these two: the file system knows no such renames
  if (link(from.c_str(), to.c_str()) == 0) {
    unlink(from.c_str());
    return 0;
  }
  if (errno == EEXIST) return errno;
  struct stat there;
  if (lstat(to.c_str(), &there) == 0) return EEXIST;
  return rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

// SignalsWait lets signals wait while it lives. The process must have no other threads.
class SignalsWait {
  sigset_t before_;

 public:
  SignalsWait() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;
};

// Moves a folder's files into a directory that has nothing else, and removes the folder. config.json comes
// last: a checkpoint without it is none.
//
// Files that were moved go back out of the directory where one cannot be moved. Returns what is wrong, or "".
std::string move_files(const fs::path& from, const fs::path& to) {
  std::error_code failed, ignored;
  const auto has_other = [](const std::string& name) {
    return fmt::format("has {}, which was not there before, expected an empty directory", name);
  };
  if (const std::string other = other_entry(to, from, failed); !other.empty()) return has_other(other);
  std::vector<std::string> names;
  for (fs::directory_iterator at(from, failed), end; !failed && at != end; at.increment(failed))
    names.push_back(at->path().filename().string());
  if (failed) return "cannot write: " + failed.message();
  std::ranges::partition(names, [](const std::string& name) { return name != kConfig; });
  for (size_t i = 0; i < names.size(); ++i) {
    const int number = move_file((from / names[i]).string(), (to / names[i]).string());
    if (number == 0) continue;
    for (size_t moved = 0; moved < i; ++moved) fs::remove(to / names[moved], ignored);
    return number == EEXIST ? has_other(names[i]) : fmt::format("cannot write: {}", std::strerror(number));
  }
  fs::remove_all(from, ignored);
  return "";
}

// Returns a descriptor that locks the folder, or -1 with the reason in errno.
int lock_folder(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 || flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  const int number = errno;
  close(descriptor);
  errno = number;
  return -1;
}

// Removes a folder that no run has locked. Returns what is wrong, or "".
std::string remove_unlocked(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const int locked = lock_folder(folder.string());
  if (locked < 0 && errno == EWOULDBLOCK)
    return fmt::format("has {}, which another mkc quantize writes", name);
  std::error_code failed(locked < 0 ? errno : 0, std::generic_category());
  if (locked >= 0) fs::remove_all(folder, failed);
  if (locked >= 0) close(locked);
  if (!failed) return "";
  return fmt::format("has {}, which another mkc quantize writes or has left: {}", name, failed.message());
}

// Removes the folders that killed runs left in a directory with nothing else. Returns what keeps it from
// being empty, or "".
std::string empty_of_killed_runs(const std::string& directory) {
  std::error_code failed;
  std::vector<fs::path> left;
  for (fs::directory_iterator at(directory, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kOwn) || name.size() != std::strlen(kOwn) + kRandom ||
        !fs::is_directory(at->symlink_status(failed)))
      return "exists, expected a new or an empty directory";
    left.push_back(at->path());
  }
  if (failed) return "cannot read: " + failed.message();
  for (const fs::path& folder : left)
    if (std::string fault = remove_unlocked(folder); !fault.empty()) return fault;
  return "";
}

}  // namespace

// The folder is in `to` where `to` exists, and else beside it.
struct OutputFolder::State {
  std::string to, path;
  bool inside;
  mkrt::Temporary noted;
  int locked;  // other runs see that this one writes the folder; -1: the file system has no locks
  bool committed = false;

  State(std::string target, std::string folder, bool is_inside)
      : to(std::move(target)),
        path(std::move(folder)),
        inside(is_inside),
        noted(path),
        locked(lock_folder(path)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    std::error_code ignored;
    if (!committed) fs::remove_all(path, ignored);
    if (locked >= 0) close(locked);
  }
};

OutputFolder::OutputFolder(std::unique_ptr<State> state) : state_(std::move(state)) {}
OutputFolder::OutputFolder(OutputFolder&&) noexcept = default;
OutputFolder& OutputFolder::operator=(OutputFolder&&) noexcept = default;
OutputFolder::~OutputFolder() = default;

const std::string& OutputFolder::path() const {
  return state_->path;
}

Result<OutputFolder> OutputFolder::create(const std::string& path, const std::string& checkpoint) {
  std::error_code failed, ignored;
  const std::string given = fs::path(path).has_filename() ? path : fs::path(path).parent_path().string();
  const std::string to = fs::weakly_canonical(fs::absolute(mkrt::behind_links(given)), failed).string();
  if (failed) return folder_fault(given, "cannot create: " + failed.message());
  if (fs::equivalent(to, ".", failed))
    return folder_fault(given, "is the working directory, expected a new or another directory");
  const fs::path from = fs::canonical(checkpoint, ignored);
  if (!from.empty() && to != from && std::ranges::mismatch(from, fs::path(to)).in1 == from.end())
    return folder_fault(
        given, fmt::format("is inside {}, which is quantized, expected a directory outside it", checkpoint));
  const bool inside = fs::exists(to, failed);
  if (inside && !fs::is_directory(to, failed))
    return folder_fault(given, "exists, expected a new or an empty directory");
  if (const std::string fault = inside ? empty_of_killed_runs(to) : ""; !fault.empty())
    return folder_fault(given, fault);
  std::string folder =
      inside ? fmt::format("{}/{}{}", to, kOwn, std::string(kRandom, 'X')) : mkrt::temporary_beside(to);
  const mkrt::MakingTemporary making;
  // mkdtemp() finds a free name. mkdir() gives the folder the permissions that the process's mask leaves.
  if (mkdtemp(folder.data()) == nullptr || rmdir(folder.c_str()) != 0 || mkdir(folder.c_str(), 0777) != 0)
    return folder_fault(given,
                        fmt::format("cannot {}: {}", inside ? "write" : "create", std::strerror(errno)));
  return OutputFolder(std::make_unique<State>(to, folder, inside));
}

Status OutputFolder::commit() {
  const SignalsWait all_or_none;
  if (state_->inside) {
    if (const std::string fault = move_files(state_->path, state_->to); !fault.empty())
      return folder_fault(state_->to, fault);
  } else {
    std::error_code failed;
    fs::rename(state_->path, state_->to, failed);
    if (failed) return folder_fault(state_->to, "cannot write: " + failed.message());
  }
  state_->committed = true;
  return {};
}

Result<std::vector<std::string>> copy_other_files(const mkrt::Checkpoint& checkpoint,
                                                  const OutputFolder& folder) {
  const std::string& to = folder.path();
  std::vector<std::string> left_out;
  std::error_code failed;
  const fs::directory_iterator entries(checkpoint.directory, failed);
  if (failed) return folder_fault(checkpoint.directory, "cannot read: " + failed.message());
  for (const fs::directory_entry& entry : entries) {
    const std::string name = entry.path().filename().string();
    const auto written = [&](const mkrt::MappedFile& file) { return fs::path(file.path).filename() == name; };
    if (name == kConfig || name == kIndex || std::ranges::any_of(checkpoint.files, written)) continue;
    if (std::error_code ignored; !entry.is_regular_file(ignored) || has_weights(name)) {
      left_out.push_back(name);
      continue;
    }
    fs::copy_file(entry.path(), to + "/" + name, failed);
    if (failed) return folder_fault(entry.path().string(), "cannot copy: " + failed.message());
  }
  std::ranges::sort(left_out);
  return left_out;
}

Status write_config(const std::string& config, const Matrices& matrices, const std::string& to) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(config);
  if (!matrices.tied_head.empty()) json["tie_word_embeddings"] = false;
  json["quantization_config"] = config_of(*matrices.format, matrices.left_out);
  return write_text(to + "/" + kConfig, json.dump(2) + "\n");
}

Status write_index(const std::vector<Shard>& shards, const std::string& to) {
  if (shards.size() == 1 && shards[0].name == kSingle) return {};
  nlohmann::json map;
  uint64_t bytes = 0;
  for (const Shard& shard : shards) {
    bytes += shard.bytes;
    for (const ShardTensor& t : shard.tensors) map[t.name] = shard.name;
  }
  return write_text(
      to + "/" + kIndex,
      nlohmann::ordered_json{{"metadata", {{"total_size", bytes}}}, {"weight_map", map}}.dump(2) + "\n");
}

}  // namespace mkc::quantize
