// Generation needs a checkpoint, an artefact and a device.
#pragma once

#include <memory>
#include <string>

#include "runtime/session/session.h"
#include "tools/artefact.h"
#include "tools/run_arguments.h"

namespace mkc {

struct Loaded {
  std::string directory;  // directory of the checkpoint
  mkrt::Checkpoint checkpoint;
  mkrt::Artefact artefact;
  std::string config_hash;
  HostKernel kernel;  // emulator only
  std::unique_ptr<mkrt::Device> device;
};

// Opens the device and compiles a model for it, or loads a cubin.
//
// Errors: those of compiling, of the checkpoint and of the device; weights that do not fit in the device's
// memory. The check of memory comes before any compilation.
Result<Loaded> load(const RunArguments& arguments);

// Tells whether a file keeps the packed weights on the processor (docs/processor.md).
bool keeps_weights(const RunArguments& arguments);

}  // namespace mkc
