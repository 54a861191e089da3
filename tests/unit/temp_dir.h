// TempDir is a directory for a test's files. The destructor removes it.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace mkrt::test {

class TempDir {
 public:
  TempDir() : path(make()) {}
  ~TempDir() { std::filesystem::remove_all(path); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  // Writes a file of the directory. The result is the file's path.
  std::string write(const std::string& name, std::string_view bytes) const {
    const std::string file = path + "/" + name;
    std::ofstream out(file, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    REQUIRE(out.good());
    return file;
  }

  // Returns the text without the directory's path.
  std::string without_path(std::string text) const {
    for (size_t at; (at = text.find(path + "/")) != text.npos;) text.erase(at, path.size() + 1);
    return text;
  }

  const std::string path;

 private:
  static std::string make() {
    std::string name = (std::filesystem::temp_directory_path() / "mkc-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    return name;
  }
};

}  // namespace mkrt::test
