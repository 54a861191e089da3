#include "tools/model_path.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <vector>

#include "frontend/families.h"
#include "runtime/base/file.h"
#include "runtime/base/file_kind.h"
#include "runtime/base/outputs.h"
#include "tools/hub_cache.h"

namespace mkc {
namespace {

namespace fs = std::filesystem;

Error fault(const fs::path& path, const std::string& message) {
  return {fmt::format("{}: error: {}", path.string(), message)};
}

bool is_there(const fs::path& path) {
  std::error_code failed;
  return fs::exists(path, failed);
}

// Returns the foreign format of a file, by its first bytes, or "".
std::string format_of(const fs::path& file) {
  std::array<char, 512> head{};
  std::ifstream stream(file, std::ios::binary);
  stream.read(head.data(), head.size());
  return mkrt::foreign_format(std::as_bytes(std::span(head).first(static_cast<size_t>(stream.gcount()))));
}

std::vector<std::string> folders_in(const fs::path& directory, const std::string& prefix) {
  std::error_code failed;
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, failed))
    if (entry.is_directory(failed) && entry.path().filename().string().starts_with(prefix))
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Returns the snapshot of a model's folder in the cache: the one that refs/main names, or the only one.
Result<std::string> find_snapshot(const fs::path& folder) {
  std::string main;
  std::ifstream(folder / "refs" / "main") >> main;
  if (!main.empty() && is_there(folder / "snapshots" / main / "config.json"))
    return (folder / "snapshots" / main).string();
  const std::vector<std::string> names = folders_in(folder / "snapshots", "");
  if (names.size() == 1) return (folder / "snapshots" / names[0]).string();
  if (names.empty())
    return fault(folder, "is a folder of a hub cache without a snapshot: download the model");
  return fault(folder / "snapshots", fmt::format("has {} snapshots, expected one as MODEL: {}", names.size(),
                                                 fmt::join(names, ", ")));
}

Result<std::string> find_in_directory(const fs::path& directory) {
  if (is_there(directory / "config.json")) {
    const std::string format = format_of(directory / "config.json");
    return format.empty() ? Result<std::string>(directory.string())
                          : fault(directory / "config.json", "is " + format);
  }
  if (is_there(directory / "snapshots")) {
    const Result<std::string> snapshot = find_snapshot(directory);
    return snapshot.ok() ? find_in_directory(snapshot.value()) : snapshot;
  }
  for (const fs::path& hub : {directory, directory / "hub"})
    if (const std::vector<std::string> models = folders_in(hub, "models--"); !models.empty())
      return fault(directory, fmt::format("is a hub cache of {} models, expected one as MODEL, such as {}",
                                          models.size(), (hub / models[0]).string()));
  const std::string weights = mkrt::foreign_weights(directory.string());
  return fault(directory, "has no config.json" + (weights.empty() ? "" : ", but " + weights));
}

// Returns the files that the model is read from.
std::vector<std::string> sources_of(const ModelRequest& model) {
  std::vector<std::string> sources{model.model, model.machine, model.options.family.value_or("")};
  std::error_code failed;
  for (const fs::directory_entry& file :
       fs::directory_iterator(model.options.models_dir.value_or(""), failed))
    if (file.path().extension() == ".yaml") sources.push_back(file.path().string());
  const Result<std::string> found = find_model(model.model);
  if (!found.ok()) return sources;
  const Result<CompileRequest> request = read_request(found.value(), model.options);
  if (!request.ok()) return sources;
  if (!is_builtin(request.value().family)) sources.push_back(request.value().family.document.source.path);
  for (std::string& file : mkrt::checkpoint_files(request.value().checkpoint))
    sources.push_back(std::move(file));
  return sources;
}

}  // namespace

Status check_output(const std::string& path, const ModelRequest& model,
                    const std::vector<std::string>& inputs) {
  if (path.empty() || path == "-") return {};
  MKC_TRY_STATUS(mkrt::check_writable(path));
  if (mkrt::is_absent(path)) return {};
  MKC_TRY_STATUS(mkrt::check_kept(path, sources_of(model), "the model is read from"));
  return mkrt::check_kept(path, inputs, "is read");
}

Result<std::string> find_model(const std::string& path) {
  std::error_code failed;
  const fs::path file(path);
  if (fs::is_directory(file, failed)) return find_in_directory(file);
  if (const std::string folder = hub_folder(path); !is_there(file) && !folder.empty()) {
    const fs::path cache(hub_cache());
    if (fs::is_directory(cache / folder, failed)) return find_in_directory(cache / folder);
    // A word without a slash is a path that is missing, rather than one of the few models without an owner.
    if (path.find('/') != path.npos)
      return fault(file, fmt::format("no such file or directory, and no {} in {}: mkc downloads nothing, "
                                     "expected a checkpoint's directory or a model of that cache",
                                     folder, cache.string()));
  }
  if (!fs::is_regular_file(file, failed)) return path;  // the reader of the path reports the error
  const std::string name = file.filename().string();
  const std::string directory = file.has_parent_path() ? file.parent_path().string() : ".";
  if (name == "config.json")
    return fault(file, "is a checkpoint's config.json, expected its directory: " + directory);
  if (const std::string format = format_of(file); !format.empty()) return fault(file, "is " + format);
  if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"))
    return fault(file, "is a checkpoint's file of weights, expected its directory: " + directory);
  return path;
}

}  // namespace mkc
