// Files and folders that are there for a while, and are to be gone when the process ends by a signal.
#pragma once

#include <string>

namespace mkrt {

// A path noted while this lives, as a file or as a folder of noted files. Whoever makes one removes the path;
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

// Removes what is noted, the last first. May be called by a signal's handler.
void remove_temporaries();

}  // namespace mkrt
