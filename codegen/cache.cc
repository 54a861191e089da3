#include "codegen/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "runtime/artefact/manifest.h"
#include "runtime/base/entry_name.h"
#include "runtime/base/environment.h"
#include "runtime/base/file.h"

namespace mkc {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kFormat = 3;
// Earlier builds kept entries of the last ending.
constexpr std::array<std::string_view, 4> kEndings = {".cubin", ".so", ".o", ".same"};

// Header begins an entry. The summary and the bytes follow it.
struct Header {
  uint32_t format = kFormat;
  char hash[32];  // hash_of() the entry
  uint32_t summary_bytes = 0;
};

// Returns the hash of all bytes behind the hash field of an entry.
std::string hash_of(std::span<const std::byte> entry) {
  const auto bytes = entry.subspan(offsetof(Header, summary_bytes));
  return mkrt::hash_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string path_of(const Cache& cache, const std::string& name) {
  return fmt::format("{}/{}", cache.folder, name);
}

void shrink(const Cache& cache) {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    uint64_t bytes;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code failed;
  for (const fs::directory_entry& file : fs::directory_iterator(cache.folder, failed)) {
    const std::string name = file.path().filename().string();
    const std::string_view ending = mkrt::ending_of_entry(name);
    if (std::ranges::find(kEndings, ending) == kEndings.end()) continue;
    const Entry entry{file.path(), file.last_write_time(failed), file.file_size(failed)};
    if (failed) continue;
    total += entry.bytes;
    entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= cache.max_bytes) return;
    fs::remove(entry.path, failed);
    total -= entry.bytes;
  }
}

}  // namespace

Cache default_cache() {
  if (const std::string folder = mkrt::environment("MKC_CACHE"); !folder.empty())
    return folder == "off" ? Cache{} : Cache{folder};
  if (const std::string base = mkrt::environment("XDG_CACHE_HOME"); base.starts_with('/'))
    return Cache{base + "/mkc"};
  if (const std::string home = mkrt::environment("HOME"); home.starts_with('/'))
    return Cache{home + "/.cache/mkc"};
  return {};
}

std::optional<Kept> find_cached(const Cache& cache, const std::string& name) {
  if (cache.folder.empty() || name.empty()) return std::nullopt;
  const std::string path = path_of(cache, name);
  const mkrt::Result<mkrt::MappedFile> file = mkrt::map_file(path);
  Header header;
  if (!file.ok() || file.value().bytes.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, file.value().bytes.data(), sizeof(header));
  const std::span<const std::byte> rest = file.value().bytes.subspan(sizeof(header));
  if (header.format != kFormat || header.summary_bytes > rest.size() ||
      hash_of(file.value().bytes) != std::string_view(header.hash, sizeof(header.hash)))
    return std::nullopt;
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  const auto summary = rest.first(header.summary_bytes), bytes = rest.subspan(header.summary_bytes);
  return Kept{{bytes.begin(), bytes.end()}, {reinterpret_cast<const char*>(summary.data()), summary.size()}};
}

void keep_cached(const Cache& cache, const std::string& name, const Kept& kept) {
  if (cache.folder.empty() || name.empty()) return;
  std::error_code failed;
  fs::create_directories(cache.folder, failed);
  if (failed) return;
  Header header;
  header.summary_bytes = static_cast<uint32_t>(kept.summary.size());
  std::vector<std::byte> bytes(sizeof(header) + kept.summary.size() + kept.bytes.size());
  std::byte* rest = bytes.data() + sizeof(header);
  std::memcpy(rest, kept.summary.data(), kept.summary.size());
  std::memcpy(rest + kept.summary.size(), kept.bytes.data(), kept.bytes.size());
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + offsetof(Header, hash), hash_of(bytes).data(), sizeof(header.hash));
  // A rename takes the place of whatever has the entry's name. A pipe would wait for a reader.
  mkrt::FileWriter file(path_of(cache, name));
  if (file.write(bytes, 0).ok() && file.sync().ok() && file.commit().ok()) shrink(cache);
}

}  // namespace mkc
