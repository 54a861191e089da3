#include "runtime/session/kept_weights.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>

#include "runtime/base/file.h"
#include "runtime/base/json_text.h"
#include "runtime/base/parallel.h"
#include "runtime/device/container_limits.h"

namespace mkrt {
namespace {

// A kept file is this header, a JSON text, zeros up to a multiple of kLargePageBytes, and the arena. The text
// has the key's contents, the arena's offset, a hash of each chunk of the arena, and the faulty tensors.
struct Header {
  char magic[8] = {'m', 'k', 'c', 'k', 'e', 'p', 't', '\n'};
  uint32_t version = 2, text_bytes = 0;
  char text_hash[32] = {};
};
constexpr uint64_t kLargePageBytes = uint64_t{2} << 20;  // a large page
constexpr uint64_t kChunkBytes = uint64_t{4} << 20;

std::span<const std::byte> chunk_of(std::span<const std::byte> arena, size_t i) {
  return arena.subspan(i * kChunkBytes, std::min(kChunkBytes, arena.size() - i * kChunkBytes));
}

size_t chunks_of(uint64_t bytes) {
  return (bytes + kChunkBytes - 1) / kChunkBytes;
}

// Checks the arena against its hashes, and maps all its pages on the way.
bool is_whole(std::span<const std::byte> arena, const std::vector<std::string>& hashes) {
  std::atomic<bool> whole = true;
  for_each_at_once(hashes.size(), usable_threads(), [&](size_t i) {
    const std::span<const std::byte> chunk = chunk_of(arena, i);
    madvise(const_cast<std::byte*>(chunk.data()), chunk.size(), MADV_POPULATE_READ);
    if (hash_hex(as_text(chunk)) != hashes[i]) whole = false;
  });
  return whole;
}

struct Contents {
  std::string key;
  uint64_t arena_at = 0;
  std::vector<std::string> hashes;
  std::vector<FaultyTensor> faulty;  // without their files
};

std::string to_text(const Contents& contents) {
  nlohmann::json faulty = nlohmann::json::array();
  for (const FaultyTensor& t : contents.faulty)
    faulty.push_back({{"name", t.name}, {"nans", t.nans}, {"infinities", t.infinities}, {"first", t.first}});
  return nlohmann::json{
      {"key", contents.key}, {"arena_at", contents.arena_at}, {"hashes", contents.hashes}, {"faulty", faulty}}
      .dump();
}

// Reads a text whose hash is right, so only mkc can have written it.
Result<Contents> from_text(std::string_view text, const std::string& path) {
  const Result<nlohmann::json> document = parse_json_text(text, path);
  if (!document.ok()) return document.error();
  const auto is_size = [](const nlohmann::json& v) { return v.is_number_unsigned(); };
  Status status;
  const JsonNode root(document.value(), path, status);
  const auto size = [&](const JsonNode& node) {
    if (is_size(node.raw())) return node.raw().get<uint64_t>();
    node.fail_expected("a size");
    return uint64_t{0};
  };
  Contents contents{root.at("key").string(), size(root.at("arena_at")), {}, {}};
  for (const JsonNode& hash : root.at("hashes").items()) contents.hashes.push_back(hash.string());
  for (const JsonNode& t : root.at("faulty").items())
    contents.faulty.push_back(
        {t.at("name").string(), "", size(t.at("nans")), size(t.at("infinities")), size(t.at("first"))});
  if (!status.ok()) return status.error();
  return contents;
}

// Returns the contents of a kept file. Errors: it is none, is of another version, or has a damaged header.
Result<Contents> read_contents(const MappedFile& file) {
  const auto fail = [&](const std::string& what) {
    return Error{fmt::format("{}: error: {}", file.path, what)};
  };
  Header header;
  const Header expected;
  if (file.bytes.size() < sizeof(header) ||
      std::memcmp(file.bytes.data(), expected.magic, sizeof(header.magic)) != 0)
    return fail("is no file of kept weights");
  std::memcpy(&header, file.bytes.data(), sizeof(header));
  if (header.version != expected.version)
    return fail(fmt::format("is of version {}, expected {}", header.version, expected.version));
  if (header.text_bytes > file.bytes.size() - sizeof(header))
    return fail(fmt::format("has {} bytes, expected more: truncated", file.bytes.size()));
  const std::string_view text = as_text(file.bytes.subspan(sizeof(header), header.text_bytes));
  if (hash_hex(text) != std::string_view(header.text_hash, sizeof(header.text_hash)))
    return fail("has a damaged header");
  return from_text(text, file.path);
}

// Returns the least common permissions of the checkpoint's files: who may read these may read the weights.
mode_t mode_of(const Checkpoint& checkpoint) {
  mode_t mode = 0666;
  for (const MappedFile& file : checkpoint.files) mode &= file.stamp.mode;
  return mode | 0600;
}

}  // namespace

std::string kept_path(const KeptFolder& folder, const KeptKey& key) {
  return fmt::format("{}/{}.weights", folder.path, key.place);
}

Result<std::optional<KeptWeights>> find_kept(const KeptFolder& folder, const KeptKey& key,
                                             const Manifest& manifest, const Checkpoint& checkpoint) {
  const std::string path = kept_path(folder, key);
  if (!stamp_of(path).ok()) return std::optional<KeptWeights>();
  Result<MappedFile> file = map_file(path);
  if (!file.ok()) return file.error();
  Result<Contents> read = read_contents(file.value());
  if (!read.ok()) return read.error();
  Contents& contents = read.value();
  if (contents.key != key.contents) return std::optional<KeptWeights>();
  const uint64_t found = file.value().bytes.size(), expected = contents.arena_at + manifest.weight_bytes;
  if (found != expected)
    return Error{fmt::format("{}: error: has {} bytes, expected {}: truncated", path, found, expected)};
  advise_large_pages(file.value());
  if (contents.hashes.size() != chunks_of(manifest.weight_bytes) ||
      !is_whole(file.value().bytes.subspan(contents.arena_at), contents.hashes))
    return Error{fmt::format("{}: error: differs from its hashes: damaged", path)};
  for (FaultyTensor& t : contents.faulty)
    if (const StoredTensor* stored = checkpoint.find(t.name)) t.file = stored->file;
  note_use(path);
  return std::optional(KeptWeights{std::move(file.value()), contents.arena_at, std::move(contents.faulty)});
}

Result<KeptFile> KeptFile::create(const KeptFolder& folder, const KeptKey& key, const Manifest& manifest,
                                  std::vector<FaultyTensor> faulty) {
  const std::string path = kept_path(folder, key), name = key.place + ".weights";
  const uint64_t bytes = manifest.weight_bytes;
  Contents contents{key.contents, kLargePageBytes, {}, faulty};
  contents.hashes.assign(chunks_of(bytes), std::string(32, '0'));
  const uint64_t head_bytes = sizeof(Header) + to_text(contents).size() + 32,
                 arena_at = (head_bytes + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes;
  if (Status status = make_room(folder, name, arena_at + bytes); !status.ok()) return status.error();
  KeptFile file(path, key);
  file.file_->lock();  // make_room() of other processes sees that the file is being written
  if (Status status = file.file_->write({}, 0); !status.ok()) return status.error();
  file.faulty_ = std::move(faulty);
  file.hashes_ = std::move(contents.hashes);
  file.arena_at_ = arena_at;
  file.arena_bytes_ = bytes;
  return file;
}

Result<std::span<std::byte>> KeptFile::map() {
  Result<std::shared_ptr<std::byte>> mapping = file_->map(arena_at_ + arena_bytes_);
  if (!mapping.ok()) return mapping.error();
  mapping_ = std::move(mapping.value());
  return std::span(mapping_.get() + arena_at_, arena_bytes_);
}

// The arena goes chunk by chunk. Threads take turns to read the device.
Status KeptFile::write(Device& device, uint64_t arena) {
  std::mutex turn;
  Status status;  // the first failure
  for_each_at_once(hashes_.size(), usable_threads(), [&](size_t i) {
    const uint64_t begin = i * kChunkBytes;
    std::vector<std::byte> chunk(std::min(kChunkBytes, arena_bytes_ - begin));
    {
      const std::lock_guard lock(turn);
      if (status.ok()) status = device.read(chunk, arena + begin);
      if (!status.ok()) return;
    }
    hashes_[i] = hash_hex(as_text(chunk));
    const Status written = file_->write(chunk, arena_at_ + begin);
    const std::lock_guard lock(turn);
    if (!written.ok()) status = written;
  });
  return status;
}

Status KeptFile::commit(const Checkpoint& checkpoint) {
  if (mapping_)
    for_each_at_once(hashes_.size(), usable_threads(), [&](size_t i) {
      hashes_[i] = hash_hex(as_text(chunk_of({mapping_.get() + arena_at_, arena_bytes_}, i)));
    });
  const std::string text = to_text({key_.contents, arena_at_, hashes_, faulty_});
  Header header;
  header.text_bytes = static_cast<uint32_t>(text.size());
  hash_hex(text).copy(header.text_hash, sizeof(header.text_hash));
  if (Status status = file_->write(std::as_bytes(std::span(&header, 1)), 0); !status.ok()) return status;
  if (Status status = file_->write(std::as_bytes(std::span(text)), sizeof(header)); !status.ok())
    return status;
  if (Status status = check_stamps(checkpoint); !status.ok()) return status;
  return file_->commit(mode_of(checkpoint));
}

MappedFile KeptFile::mapped() const {
  const uint64_t bytes = arena_at_ + arena_bytes_;
  mprotect(mapping_.get(), bytes, PROT_READ);
  return {path_, {mapping_.get(), bytes}, mapping_};
}

}  // namespace mkrt
