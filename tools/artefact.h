// From an opened model to something that runs.
#pragma once

#include "codegen/assembler.h"
#include "codegen/cache.h"
#include "codegen/describe.h"
#include "codegen/host_kernel.h"
#include "runtime/artefact/artefact.h"
#include "tools/passes.h"

namespace mkc {

const char* version();
const char* commit();        // of the sources, with -dirty where they were changed since; "": not known
std::string version_text();  // "mkc 0.1.0 (4c9436c1d2e3)"

// What the manifest says of the model. `schedule_hash`: of the schedule's text.
ModelIdentity identify(const Compilation& compilation);

// The emulator's artefact, and the code that is its kernel.
struct HostArtefact {
  mkrt::Artefact artefact;
  HostKernel kernel;
};
// Of a proved schedule. The compilation's mode goes before that of `options`.
Result<HostArtefact> build_for_emulator(Compilation& compilation, const HostOptions& options = {});

// Manifest and plan for the emulator, sealed. Requires what build_for_emulator does.
mkrt::Artefact describe_for_emulator(const Compilation& compilation);

// A kernel for a GPU on its way to a cubin.
struct GpuBuild {
  mkrt::Manifest manifest;  // without its certificate and seals
  std::vector<std::byte> plan;
  std::string ptx;  // without the manifest
};
// What the code is made for, less the parts that it goes without. Error: an unknown target.
Result<Target> target_of(const Compilation& compilation);
// The whole PTX file of a proved schedule, with certificate and a seal of what is no code.
std::string finish_ptx(const Compilation& compilation, GpuBuild build);
// PTX of a placed schedule. Error: an unknown target.
Result<GpuBuild> build_ptx(Compilation& compilation);

struct BuiltCubin {
  std::vector<std::byte> bytes;
  std::string summary;  // JSON: see tools/summary.h
  bool cached = false;
};
// The cubin of an opened model: one that was kept of the same request, machine, mkc and assembler, or else by
// all passes, `observer` being called after each, code generation and the assembler; then it is kept. Times
// are added to the compilation, which has a module in the second case only. Errors: those of the passes, of
// build_ptx and of the assembler.
Result<BuiltCubin> build_cubin(Compilation& compilation, const Assembler& assembler, const Cache& cache,
                               const PassObserver& observer = {});

}  // namespace mkc
