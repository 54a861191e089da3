#include "runtime/device/container_limits.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "runtime/device/processor.h"

namespace mkrt {
namespace {

constexpr uint64_t kNoLimit = uint64_t{1} << 60;  // version 1 writes a number near 2^63 for no limit

// Opens a regular file. To open another one, such as a pipe, may wait without end.
std::ifstream open_regular(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) ? std::ifstream(path) : std::ifstream();
}

std::vector<std::string> words_of(const std::string& path) {
  std::ifstream file = open_regular(path);
  std::string line;
  std::getline(file, line);
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::optional<uint64_t> number_of(const std::vector<std::string>& words, size_t index) {
  if (index >= words.size()) return std::nullopt;
  uint64_t value = 0;
  const char* end = words[index].data() + words[index].size();
  const auto [at, failed] = std::from_chars(words[index].data(), end, value);
  if (failed != std::errc() || at != end) return std::nullopt;  // "max", "-1"
  return value;
}

class LimitReader {
 public:
  explicit LimitReader(std::string root) : root_(std::move(root)) {}

  ContainerLimits read() {
    std::ifstream groups = open_regular(root_ + "/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);) {
      // A line is ID:CONTROLLERS:PATH, and version 2 has no controllers.
      const size_t first = line.find(':'), second = line.find(':', first + 1);
      if (first == line.npos || second == line.npos) continue;
      const std::string controllers = line.substr(first + 1, second - first - 1);
      const std::string path = line.substr(second + 1);
      if (controllers.empty()) {
        for (const char* mount : {"", "/unified"}) folders(mount, path, &LimitReader::version_2);
        continue;
      }
      std::istringstream in(controllers);
      for (std::string one; std::getline(in, one, ',');) {
        if (one != "memory" && one != "cpu") continue;
        const auto reader = one == "cpu" ? &LimitReader::cpu_version_1 : &LimitReader::memory_version_1;
        folders("/" + one, path, reader);
        if (controllers != one) folders("/" + controllers, path, reader);
      }
    }
    return limits_;
  }

 private:
  // Reads the folder of a group and those around it, up to the mount. A container may see its own group as
  // the mount, while the path is that of the host.
  void folders(const std::string& mount, std::string path, void (LimitReader::*reader)(const std::string&)) {
    if (!path.starts_with('/') || path.find("/..") != path.npos) path.clear();
    while (path.ends_with('/')) path.pop_back();
    for (;; path.resize(path.rfind('/'))) {
      (this->*reader)(root_ + "/sys/fs/cgroup" + mount + path);
      if (path.empty()) return;
    }
  }

  void version_2(const std::string& folder) {
    memory(folder + "/memory.max");
    const std::string file = folder + "/cpu.max";
    const std::vector<std::string> words = words_of(file);
    processors(number_of(words, 0), number_of(words, 1), file);
  }
  void memory_version_1(const std::string& folder) { memory(folder + "/memory.limit_in_bytes"); }
  void cpu_version_1(const std::string& folder) {
    const std::string file = folder + "/cpu.cfs_quota_us";
    processors(number_of(words_of(file), 0), number_of(words_of(folder + "/cpu.cfs_period_us"), 0), file);
  }

  void memory(const std::string& file) {
    const std::optional<uint64_t> bytes = number_of(words_of(file), 0);
    if (!bytes || *bytes == 0 || *bytes >= kNoLimit) return;
    if (limits_.memory_bytes != 0 && limits_.memory_bytes <= *bytes) return;
    limits_.memory_bytes = *bytes, limits_.memory_file = file;
  }
  void processors(std::optional<uint64_t> quota, std::optional<uint64_t> period, const std::string& file) {
    if (!quota || !period || *quota == 0 || *period == 0) return;
    const double share = static_cast<double>(*quota) / static_cast<double>(*period);
    if (limits_.processors != 0 && limits_.processors <= share) return;
    limits_.processors = share, limits_.processors_file = file;
  }

  std::string root_;
  ContainerLimits limits_;
};

}  // namespace

ContainerLimits container_limits(const std::string& root) {
  return LimitReader(root).read();
}

bool has_quota(uint32_t processors, const ContainerLimits& limits) {
  return limits.processors != 0 && limits.processors < processors;
}

uint32_t threads_within(uint32_t processors, const ContainerLimits& limits) {
  if (!has_quota(processors, limits)) return std::max(processors, 1U);
  return std::max(static_cast<uint32_t>(std::ceil(limits.processors)), 1U);
}

uint32_t usable_threads() {
  return threads_within(static_cast<uint32_t>(usable_processors().size()), container_limits());
}

uint64_t memory_within(const ContainerLimits& limits) {
  const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  const uint64_t all =
      pages > 0 && bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes) : 0;
  if (limits.memory_bytes == 0) return all;
  return all == 0 ? limits.memory_bytes : std::min(all, limits.memory_bytes);
}

}  // namespace mkrt
