#include "tests/attack/fuzz/parsers.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace mkc::attack {
namespace {

namespace fs = std::filesystem;

struct Folder {
  std::string path = make();
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }

 private:
  static std::string make() {
    std::error_code failed;
    const fs::path base =
        fs::is_directory("/dev/shm", failed) ? fs::path("/dev/shm") : fs::temp_directory_path();
    std::string name = (base / "mkc-fuzz-XXXXXX").string();
    promise(mkdtemp(name.data()) != nullptr, "a folder for files can be made");
    return name;
  }
};

}  // namespace

std::span<const Parser> parsers() {
  static constexpr Parser kParsers[] = {
      {"family", run_family, family_seeds},
      {"model_file", run_model_file, model_file_seeds},
      {"config", run_config, config_seeds},
      {"generation", run_generation, generation_seeds},
      {"machine", run_machine, machine_seeds},
      {"mkir", run_mkir, mkir_seeds},
      {"safetensors", run_safetensors, safetensors_seeds},
      {"shard_index", run_shard_index, shard_index_seeds},
      {"tokenizer", run_tokenizer, tokenizer_seeds},
      {"manifest", run_manifest, manifest_seeds},
      {"artefact", run_artefact, artefact_seeds},
      {"trace", run_trace, trace_seeds},
      {"batch_file", run_batch_file, batch_file_seeds},
      {"chat_template", run_chat_template, chat_template_seeds},
      {"tokenizer_config", run_tokenizer_config, tokenizer_config_seeds},
      {"http", run_http, http_seeds},
      {"chat_request", run_chat_request, chat_request_seeds},
      {"completion_request", run_completion_request, completion_request_seeds},
      {"tokenize_request", run_tokenize_request, tokenize_request_seeds},
  };
  return kParsers;
}

std::string folder() {
  static const Folder one;
  return one.path;
}

std::string put_file(const std::string& name, std::string_view bytes) {
  std::string path = folder() + "/" + name;
  int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) {  // the first file of its folder
    fs::create_directories(fs::path(path).parent_path());
    file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  }
  const bool written =
      file >= 0 && ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  promise(written && ::close(file) == 0, "a file can be written");
  return path;
}

std::vector<std::string> files_of(const std::string& from, const std::string& suffix) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& file :
       fs::recursive_directory_iterator(std::string(MKC_SOURCE_DIR "/") + from))
    if (file.is_regular_file() && file.path().string().ends_with(suffix)) paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> texts;
  for (const fs::path& path : paths) {
    std::ifstream in(path, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return texts;
}

void promise(bool kept, const char* which) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", which);
  std::abort();
}

}  // namespace mkc::attack
