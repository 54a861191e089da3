#include "runtime/base/outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "runtime/base/file.h"

namespace mkrt {
namespace {

namespace fs = std::filesystem;

Error overwrites(const std::string& output, const std::string& file, const char* why) {
  return {fmt::format("{}: error: would overwrite {}, which {}", output, file, why)};
}

bool are_one_file(const std::string& a, const std::string& b) {
  std::error_code failed;
  return fs::is_regular_file(a, failed) && fs::is_regular_file(b, failed) && fs::equivalent(a, b, failed);
}

}  // namespace

std::vector<std::string> checkpoint_files(const std::string& directory) {
  static constexpr std::array kEndings = {".json", ".safetensors", ".model", ".txt", ".bin",
                                          ".gguf", ".jinja",       ".md",    ".yaml"};
  std::error_code failed;
  std::vector<std::string> files;
  for (const fs::directory_entry& file : fs::directory_iterator(directory, failed))
    if (std::ranges::count(kEndings, file.path().extension()) > 0) files.push_back(file.path().string());
  std::ranges::sort(files);
  return files;
}

Status check_kept(const std::string& output, std::span<const std::string> files, const char* why) {
  for (const std::string& file : files)
    if (are_one_file(output, file)) return overwrites(output, file, why);
  return {};
}

Status check_apart(const std::string& output, const std::string& other) {
  std::error_code failed;
  if (output.empty() || other.empty()) return {};
  const bool absent =
      !fs::exists(output, failed) && !fs::exists(other, failed) &&
      fs::weakly_canonical(behind_links(output), failed) == fs::weakly_canonical(behind_links(other), failed);
  if (absent || are_one_file(output, other)) return overwrites(output, other, "is written, too");
  return {};
}

}  // namespace mkrt
