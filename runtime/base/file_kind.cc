#include "runtime/base/file_kind.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

namespace mkrt {
namespace {

namespace fs = std::filesystem;

bool begins_like_html(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  std::string start(text.substr(0, 16));
  std::transform(start.begin(), start.end(), start.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return start.starts_with("<!doctype html") || start.starts_with("<html");
}

}  // namespace

std::string foreign_format(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<size_t>(bytes.size(), 512));
  if (text.starts_with("version https://git-lfs"))
    return "a Git LFS pointer, not the file itself: run git lfs pull, or download the file";
  if (begins_like_html(text)) return "an HTML page, not the file itself: the download went wrong";
  if (text.starts_with("GGUF"))
    return "a GGUF file: mkc reads Hugging Face checkpoints (config.json, *.safetensors)";
  // Pickles of PyTorch begin with a long integer. Two bytes fewer are also the length of a safetensors
  // header.
  if (text.starts_with(std::string_view("PK\3\4", 4)) || text.starts_with("\x80\x02\x8a\x0a"))
    return "a PyTorch pickle: mkc reads Hugging Face checkpoints (config.json, *.safetensors)";
  if (text.starts_with("\x7f"
                       "ELF"))
    return "an ELF file, such as a cubin";
  return "";
}

std::string foreign_weights(const std::string& directory) {
  std::error_code failed;
  std::vector<std::string> names;
  for (const fs::directory_entry& file : fs::directory_iterator(directory, failed))
    names.push_back(file.path().filename().string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    if (name.starts_with("pytorch_model") && (name.ends_with(".bin") || name.ends_with(".bin.index.json")))
      return name + ", PyTorch's pickles: convert them to safetensors";
    if (name.ends_with(".pth") || name.ends_with(".pt"))
      return name + ", a pickle: convert it to safetensors";
    if (name.ends_with(".gguf")) return name + ", a GGUF file: take the checkpoint it was made from";
    if (name == "adapter_model.safetensors") return name + ", an adapter: merge it into its base model";
    if (name.ends_with(".safetensors")) return name + ", which no index names";
  }
  return "";
}

}  // namespace mkrt
