#include "tools/quantize/folder.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/base/temporaries.h"

namespace mkc::quantize {
namespace {

namespace fs = std::filesystem;
using mkrt::Error;
using mkrt::Result;
using mkrt::Status;

constexpr const char *kConfig = "config.json", *kIndex = "model.safetensors.index.json";
constexpr const char* kSingle = "model.safetensors";

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

// Moves a folder's files and removes the folder. config.json comes last: a checkpoint without it is none.
// Files that were moved are removed where one cannot be.
std::error_code move_files(const fs::path& from, const fs::path& to) {
  std::error_code failed, ignored;
  std::vector<fs::path> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(from, failed))
    names.push_back(entry.path().filename());
  std::ranges::partition(names, [](const fs::path& name) { return name != kConfig; });
  for (size_t i = 0; i < names.size() && !failed; ++i) {
    fs::rename(from / names[i], to / names[i], failed);
    if (failed)
      for (size_t moved = 0; moved < i; ++moved) fs::remove(to / names[moved], ignored);
  }
  if (!failed) fs::remove(from, ignored);
  return failed;
}

}  // namespace

// The folder is in `to` where `to` exists, and else beside it.
struct OutputFolder::State {
  std::string to, path;
  bool inside;
  mkrt::Temporary noted;
  bool committed = false;

  State(std::string target, std::string folder, bool is_inside)
      : to(std::move(target)), path(std::move(folder)), inside(is_inside), noted(path) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    std::error_code ignored;
    if (!committed) fs::remove_all(path, ignored);
  }
};

OutputFolder::OutputFolder(std::unique_ptr<State> state) : state_(std::move(state)) {}
OutputFolder::OutputFolder(OutputFolder&&) noexcept = default;
OutputFolder& OutputFolder::operator=(OutputFolder&&) noexcept = default;
OutputFolder::~OutputFolder() = default;

const std::string& OutputFolder::path() const {
  return state_->path;
}

const std::string& OutputFolder::target() const {
  return state_->to;
}

Result<OutputFolder> OutputFolder::create(const std::string& path) {
  std::error_code failed;
  const std::string given = fs::path(path).has_filename() ? path : fs::path(path).parent_path().string();
  const std::string to = fs::weakly_canonical(mkrt::behind_links(given), failed).string();
  if (failed) return folder_fault(given, "cannot create: " + failed.message());
  if (fs::equivalent(to, ".", failed))
    return folder_fault(given, "is the working directory, expected a new or another directory");
  const bool inside = fs::exists(to, failed);
  if (inside && !(fs::is_directory(to, failed) && fs::is_empty(to, failed)))
    return folder_fault(given, "exists, expected a new or an empty directory");
  std::string folder = inside ? to + "/.mkc.XXXXXX" : mkrt::temporary_beside(to);
  // mkdtemp() finds a free name. mkdir() gives the folder the permissions that the process's mask leaves.
  if (mkdtemp(folder.data()) == nullptr || rmdir(folder.c_str()) != 0 || mkdir(folder.c_str(), 0777) != 0)
    return folder_fault(given,
                        fmt::format("cannot {}: {}", inside ? "write" : "create", std::strerror(errno)));
  return OutputFolder(std::make_unique<State>(to, folder, inside));
}

Status OutputFolder::commit() {
  std::error_code failed;
  if (state_->inside)
    failed = move_files(state_->path, state_->to);
  else
    fs::rename(state_->path, state_->to, failed);
  if (failed) return folder_fault(state_->to, "cannot write: " + failed.message());
  state_->committed = true;
  return {};
}

Result<std::vector<std::string>> copy_other_files(const mkrt::Checkpoint& checkpoint,
                                                  const OutputFolder& folder) {
  const std::string& to = folder.path();
  const auto is_output = [&](const fs::path& path) {
    std::error_code ignored;
    return fs::equivalent(path, to, ignored) || fs::equivalent(path, folder.target(), ignored);
  };
  std::vector<std::string> left_out;
  std::error_code failed;
  const fs::directory_iterator entries(checkpoint.directory, failed);
  if (failed) return folder_fault(checkpoint.directory, "cannot read: " + failed.message());
  for (const fs::directory_entry& entry : entries) {
    const std::string name = entry.path().filename().string();
    const auto written = [&](const mkrt::MappedFile& file) { return fs::path(file.path).filename() == name; };
    if (name == kConfig || name == kIndex || std::ranges::any_of(checkpoint.files, written)) continue;
    if (is_output(entry.path())) continue;
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
