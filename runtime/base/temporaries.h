// Files and folders that are there for a while, and are to be gone when the process ends by a signal.
#pragma once

#include <string>

namespace mkrt {

// A path noted while this lives, as a file or as a folder of files. Whoever makes one removes the path;
// noting more than 64 at a time, or longer than 4095 bytes, notes nothing.
class Temporary {
 public:
  explicit Temporary(const std::string& path);
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

 private:
  int slot_;
};

// A new folder in the one for temporary files ($TMPDIR), noted while it lives and then removed with its
// files.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string path;  // empty: it could not be made

 private:
  const Temporary noted_;
};
inline constexpr const char* kNoTemporaryFolder = "no directory for temporary files";

// Removes what is noted, the last first, and folders with the files in them. May be called by a signal's
// handler.
void remove_temporaries();

}  // namespace mkrt
