// Temporary files and folders must be gone even when a signal ends the process.
#pragma once

#include <csignal>
#include <string>

namespace mkrt {

// MakingTemporary lives while a temporary path is made and listed, as one step. Signals to the thread wait
// meanwhile. Where remove_temporaries_at_end() was called, the thread waits for the end of the process.
class MakingTemporary {
 public:
  MakingTemporary();
  ~MakingTemporary();
  MakingTemporary(const MakingTemporary&) = delete;
  MakingTemporary& operator=(const MakingTemporary&) = delete;

 private:
  sigset_t before_;
};

// Temporary lists a path, of a file or a folder of files, while the object lives. The code that makes the
// path, under a MakingTemporary, also removes it. Nothing is listed beyond 64 paths at a time, or for a path
// of more than 4095 bytes.
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
  explicit TemporaryFolder(const MakingTemporary& making = MakingTemporary());
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string path;  // empty: the folder could not be made
  // Names the directory and the reason if the folder could not be made.
  const std::string& fault() const { return fault_; }

 private:
  const Temporary noted_;
};

// Removes the listed paths, the last slot first, and folders with the files in them.
void remove_temporaries();

// Removes the listed paths of a process that is about to end, also those that other threads are making.
// Threads that make further ones stop. A signal handler may call it.
void remove_temporaries_at_end();

}  // namespace mkrt
