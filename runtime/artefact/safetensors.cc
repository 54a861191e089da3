#include "runtime/artefact/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/file.h"
#include "runtime/base/file_kind.h"
#include "runtime/base/json_text.h"

namespace mkrt {
namespace {

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kMaxIndexBytes = 64 << 20;

// Returns the bytes of an element, or 0 for unknown types.
uint64_t dtype_bytes(const std::string& dtype) {
  static const std::map<std::string, uint64_t> kBytes = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
      {"F32", 4},  {"I64", 8}, {"U64", 8}, {"F64", 8}};
  const auto found = kBytes.find(dtype);
  return found == kBytes.end() ? 0 : found->second;
}

// Returns an integer from 0 to 2^63 - 1.
uint64_t size_of(const JsonNode& node) {
  const nlohmann::json& value = node.raw();
  if (value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX) return value.get<uint64_t>();
  node.fail_expected("an integer from 0 to 2^63 - 1");
  return 0;
}

// Reads one entry of a header. `data` is the file's bytes behind the header.
StoredTensor read_entry(const std::string& name, const JsonNode& entry, const MappedFile& file,
                        std::span<const std::byte> data) {
  entry.allow_keys({"dtype", "shape", "data_offsets"});
  StoredTensor tensor{name, entry.at("dtype").string(), {}, file.path, {}};
  uint64_t bytes = dtype_bytes(tensor.dtype);
  if (bytes == 0) entry.at("dtype").fail_expected("a dtype that mkc reads");
  for (const JsonNode& dim : entry.at("shape").items()) {
    const uint64_t size = size_of(dim);
    tensor.shape.push_back(static_cast<int64_t>(size));
    if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > INT64_MAX) {
      entry.at("shape").fail("has more than 2^63 bytes");
      bytes = 0;
    }
  }
  const std::vector<JsonNode> offsets = entry.at("data_offsets").items();
  if (offsets.size() != 2) entry.at("data_offsets").fail_expected("two offsets");
  if (entry.failed()) return tensor;
  const uint64_t begin = size_of(offsets[0]), end = size_of(offsets[1]);
  if (begin > end || end > data.size())
    entry.at("data_offsets")
        .fail(fmt::format("found [{}, {}], expected a range of the file's {} bytes of data", begin, end,
                          data.size()));
  else if (end - begin != bytes)
    entry.at("data_offsets")
        .fail(fmt::format("found {} bytes, expected {} by dtype and shape", end - begin, bytes));
  else
    tensor.bytes = data.subspan(begin, bytes);
  return tensor;
}

// Checks that the tensors, in the order of their data, fill it without gap or overlap.
Status check_filled(std::vector<StoredTensor> tensors, const std::string& path,
                    std::span<const std::byte> data) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  const std::byte* end = data.data();
  for (const StoredTensor& t : tensors) {
    if (t.bytes.data() != end)
      return Error{fmt::format("{}: error: tensor \"{}\" begins at byte {} of the data, expected {}", path,
                               t.name, t.bytes.data() - data.data(), end - data.data())};
    end += t.bytes.size();
  }
  if (end != data.data() + data.size())
    return Error{
        fmt::format("{}: error: tensors end at byte {} of the data, expected {}: the file is too long", path,
                    end - data.data(), data.size())};
  return {};
}

struct Index {
  std::map<std::string, std::string> shard_of;  // by tensor name
  std::set<std::string> shards;
};

Result<Index> read_index(const std::string& path) {
  const Result<std::string> text = read_text(path, kMaxIndexBytes);
  if (!text.ok()) return text.error();
  const Result<nlohmann::json> document = parse_json_text(text.value(), path);
  if (!document.ok()) return document.error();
  Status status;
  const JsonNode root(document.value(), path, status);
  root.allow_keys({"metadata", "weight_map"});
  Index index;
  for (const auto& [tensor, shard] : root.at("weight_map").members()) {
    const std::string name = shard.string();
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\\') != std::string::npos || name.find('\0') != std::string::npos)
      shard.fail_expected("the plain name of a file in the checkpoint's directory");
    index.shard_of[tensor] = name;
    index.shards.insert(name);
  }
  if (!status.ok()) return status.error();
  if (index.shards.empty()) return Error{fmt::format("{}: error: weight_map names no tensor", path)};
  return index;
}

// Checks that every tensor of the index lies in its shard, and that no shard holds other tensors.
Status check_index(const Index& index, const Checkpoint& checkpoint, const std::string& path) {
  for (const StoredTensor& t : checkpoint.tensors) {
    const auto entry = index.shard_of.find(t.name);
    const std::string shard = std::filesystem::path(t.file).filename().string();
    if (entry == index.shard_of.end())
      return Error{fmt::format("{}: error: tensor \"{}\" is not in the index {}", t.file, t.name, path)};
    if (entry->second != shard)
      return Error{fmt::format("{}: error: tensor \"{}\" is in {}, expected in {}", path, t.name, shard,
                               entry->second)};
  }
  for (const auto& [tensor, shard] : index.shard_of)
    if (!checkpoint.find(tensor))
      return Error{fmt::format("{}: error: tensor \"{}\" is not in {}", path, tensor, shard)};
  return {};
}

Status add_file(Checkpoint& checkpoint, const std::string& path) {
  Result<MappedFile> file = map_file(path);
  if (!file.ok()) return file.error();
  Result<std::vector<StoredTensor>> tensors = read_tensors(file.value());
  if (!tensors.ok()) return tensors.error();
  checkpoint.files.push_back(std::move(file.value()));
  for (StoredTensor& t : tensors.value()) checkpoint.tensors.push_back(std::move(t));
  return {};
}

Status sort_by_name(std::vector<StoredTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; });
  for (size_t i = 1; i < tensors.size(); ++i)
    if (tensors[i].name == tensors[i - 1].name)
      return Error{fmt::format("{}: error: tensor \"{}\" is also in {}", tensors[i].file, tensors[i].name,
                               tensors[i - 1].file)};
  return {};
}

}  // namespace

Result<std::vector<StoredTensor>> read_tensors(const MappedFile& file) {
  const auto fail = [&](const std::string& message) {
    return Error{fmt::format("{}: error: {}", file.path, message)};
  };
  if (const std::string kind = foreign_format(file.bytes); !kind.empty()) return fail("is " + kind);
  uint64_t header_bytes = 0;
  if (file.bytes.size() < sizeof(header_bytes))
    return fail(fmt::format("has {} bytes, expected at least 8: not a safetensors file", file.bytes.size()));
  std::memcpy(&header_bytes, file.bytes.data(), sizeof(header_bytes));
  if (header_bytes > kMaxHeaderBytes)
    return fail(fmt::format("header of {} bytes, expected at most {}", header_bytes, kMaxHeaderBytes));
  if (header_bytes > file.bytes.size() - sizeof(header_bytes))
    return fail(
        fmt::format("header of {} bytes in a file of {}: truncated", header_bytes, file.bytes.size()));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.data()) + sizeof(header_bytes),
                              header_bytes);
  const std::span<const std::byte> data = file.bytes.subspan(sizeof(header_bytes) + header_bytes);

  const Result<nlohmann::json> header = parse_json_text(text, file.path);
  if (!header.ok()) return header.error();
  Status status;
  const JsonNode root(header.value(), file.path, status);
  std::vector<StoredTensor> tensors;
  for (const auto& [name, entry] : root.members()) {
    if (name == "__metadata__") {
      for (const auto& [key, value] : entry.members()) value.string();
      continue;
    }
    tensors.push_back(read_entry(name, entry, file, data));
    if (!status.ok()) return status.error();
  }
  if (!status.ok()) return status.error();
  if (Status filled = check_filled(tensors, file.path, data); !filled.ok()) return filled.error();
  return tensors;
}

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto at = std::lower_bound(tensors.begin(), tensors.end(), name,
                                   [](const StoredTensor& t, std::string_view n) { return t.name < n; });
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

Result<Checkpoint> open_checkpoint(const std::string& directory) {
  Checkpoint checkpoint{directory, {}, {}};
  if (const Result<MappedFile> config = map_file(directory + "/config.json"); config.ok())
    checkpoint.config = config.value();
  const std::string single = directory + "/model.safetensors", sharded = single + ".index.json";
  const bool has_single = !is_absent(single), has_sharded = !is_absent(sharded);
  if (const std::string other = foreign_weights(directory); !has_single && !has_sharded && !other.empty())
    return Error{fmt::format("{}: error: has no model.safetensors, but {}", directory, other)};
  if (!is_absent(directory + "/adapter_config.json"))  // transformers adds the adapter to the model
    return Error{
        fmt::format("{}: error: has adapter_config.json, an adapter, which is not read: merge it into "
                    "its base model, or move it to another directory",
                    directory)};
  if (has_single || !has_sharded) {
    if (Status added = add_file(checkpoint, single); !added.ok()) return added.error();
    if (Status sorted = sort_by_name(checkpoint.tensors); !sorted.ok()) return sorted.error();
    return checkpoint;
  }
  const Result<Index> index = read_index(sharded);
  if (!index.ok()) return index.error();
  for (const std::string& shard : index.value().shards)
    if (Status added = add_file(checkpoint, directory + "/" + shard); !added.ok()) return added.error();
  if (Status sorted = sort_by_name(checkpoint.tensors); !sorted.ok()) return sorted.error();
  if (Status checked = check_index(index.value(), checkpoint, sharded); !checked.ok()) return checked.error();
  return checkpoint;
}

}  // namespace mkrt
