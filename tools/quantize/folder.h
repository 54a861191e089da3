// The folder of a quantized checkpoint appears whole or not at all.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/artefact/safetensors.h"
#include "tools/quantize/shard.h"

namespace mkc::quantize {

// OutputFolder is a new folder beside `path`, or in it where it is an empty directory. commit() renames the
// folder or its files to what `path` leads to by links. An empty directory so keeps its permissions.
//
// Nothing is left without commit(), also when a signal ends the process. Folders that killed runs left in
// the directory are removed. The new folder is locked, so that no other run takes it for one of these.
class OutputFolder {
 public:
  // Errors: `path` is no empty directory but exists, is the working directory, or is inside the checkpoint's;
  // another run writes it; the new folder could not be made.
  static mkrt::Result<OutputFolder> create(const std::string& path, const std::string& checkpoint);
  OutputFolder(OutputFolder&&) noexcept;
  OutputFolder& operator=(OutputFolder&&) noexcept;
  ~OutputFolder();

  const std::string& path() const;  // of the new folder
  // Signals wait meanwhile. Requires that the process has no other threads. Errors: a file cannot get its
  // name; the directory has other files by now, none of which is replaced. Nothing of the output is left
  // then.
  mkrt::Status commit();

 private:
  struct State;
  explicit OutputFolder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Copies the checkpoint's other files. Folders and other files of weights are left out; their names are
// returned, sorted. Errors: a file that cannot be read or written.
mkrt::Result<std::vector<std::string>> copy_other_files(const mkrt::Checkpoint& checkpoint,
                                                        const OutputFolder& folder);

// Writes config.json with the config of the format. `config` is the text of the source's, which is JSON.
mkrt::Status write_config(const std::string& config, const Matrices& matrices, const std::string& to);

// Writes model.safetensors.index.json for files that are not model.safetensors alone.
mkrt::Status write_index(const std::vector<Shard>& shards, const std::string& to);

}  // namespace mkc::quantize
