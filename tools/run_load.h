// Everything that generation needs, whichever device runs it.
#pragma once

#include <memory>
#include <string>

#include "runtime/session/session.h"
#include "tools/artefact.h"
#include "tools/run_arguments.h"

namespace mkc {

struct Loaded {
  std::string directory;  // of the checkpoint
  mkrt::Checkpoint checkpoint;
  mkrt::Artefact artefact;
  std::string config_hash;
  HostKernel kernel;  // emulator only
  std::unique_ptr<mkrt::Device> device;
};

// Opens the device, and compiles for it what is no cubin. Prints a warning for each tensor that holds values
// that are not a number. Errors: those of compiling, of the checkpoint and of the device; weights that the
// device has no memory for, before anything is compiled.
Result<Loaded> load(const RunArguments& arguments);

}  // namespace mkc
