// From a proved schedule to something that runs.
#pragma once

#include "codegen/cache.h"
#include "codegen/describe.h"
#include "codegen/host_kernel.h"
#include "runtime/artefact.h"
#include "tools/passes.h"

namespace mkc {

const char* version();

// What the manifest says of the model. `schedule_hash`: of the schedule's text.
// Errors: ids of end or begin in config.json that are no token ids.
Result<ModelIdentity> identify(const Compilation& compilation);

// The emulator's artefact, and the code that is its kernel.
struct HostArtefact {
  mkrt::Artefact artefact;
  HostKernel kernel;
};
// The compilation's mode goes before that of `options`.
Result<HostArtefact> build_for_emulator(Compilation& compilation, const HostOptions& options = {});

// A kernel for a GPU on its way to a cubin.
struct GpuBuild {
  mkrt::Manifest manifest;
  std::string ptx;
  Cubin cubin;
  std::string assembler;  // its name; empty: the cubin was not made
  bool cached = false;
};
// PTX of a proved schedule. Errors: an unknown target, and those of identify.
Result<GpuBuild> build_ptx(Compilation& compilation);
// The cubin of a build. Errors: those of the assembler. Times are added to the compilation.
Status build_cubin(GpuBuild& build, const Assembler& assembler, const Cache& cache, Compilation& compilation);

// The artefact that a finished build is.
mkrt::Artefact artefact_of(const GpuBuild& build, const Schedule& schedule);

}  // namespace mkc
