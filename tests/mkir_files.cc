#include "tests/mkir_files.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ir/print.h"

namespace mkc::test {

namespace fs = std::filesystem;

std::vector<fs::path> mkir_files(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(MKC_SOURCE_DIR "/tests/" + folder))
    if (entry.path().extension() == ".mkir") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string text_of(const Module& module) {
  return std::visit([](const auto& level) { return print(level); }, module);
}

bool blessing() {
  return std::getenv("MKC_BLESS") != nullptr;
}

}  // namespace mkc::test
