// Temporary files and folders must be gone even when a signal ends the process.
#pragma once

#include <string>

namespace mkrt {

// Temporary lists a path, of a file or a folder of files, while the object lives. The code that makes the
// path also removes it. Nothing is listed beyond 64 paths at a time, or for a path of more than 4095 bytes.
class Temporary {
 public:
  explicit Temporary(const std::string& path);
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

 private:
  int slot_;
};

// TemporaryFolder is a new folder in the directory for temporary files ($TMPDIR). The path is listed while
// the object lives, and then removed with its files.
class TemporaryFolder {
  std::string fault_;  // initialised before `path`

 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string path;  // empty: the folder could not be made
  // Names the directory and the reason if the folder could not be made.
  const std::string& fault() const { return fault_; }

 private:
  const Temporary noted_;
};

// Removes the listed paths, the last slot first, and folders with the files in them. A signal handler may
// call it.
void remove_temporaries();

}  // namespace mkrt
