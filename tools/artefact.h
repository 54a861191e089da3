// An opened model is built into the emulator's kernel, PTX, a cubin, or a shared object for processors.
#pragma once

#include "codegen/assembler.h"
#include "codegen/cache.h"
#include "codegen/describe.h"
#include "codegen/host_kernel.h"
#include "runtime/artefact/artefact.h"
#include "tools/passes.h"

namespace mkc {

const char* version();
const char* commit();        // commit of the sources, with -dirty if they were changed since; "": unknown
std::string version_text();  // "mkc 0.1.0 (4c9436c1d2e3)"

// Returns the model's part of the manifest. `schedule_hash` is the hash of the schedule's text.
ModelIdentity identify(const Compilation& compilation, const Engines& engines = {});

// HostArtefact is an artefact for the emulator, with the host code of its kernel.
struct HostArtefact {
  mkrt::Artefact artefact;
  HostKernel kernel;
};
// Compiles a proved schedule for the emulator. The mode and target features are those of the compilation, not
// of `options`.
Result<HostArtefact> build_for_emulator(Compilation& compilation, const HostOptions& options = {});

// Returns sealed manifest and plan for the emulator. Requires a proved schedule.
mkrt::Artefact describe_for_emulator(const Compilation& compilation);

// GpuBuild is a GPU kernel before assembly.
struct GpuBuild {
  mkrt::Manifest manifest;  // without its certificate and seals
  std::vector<std::byte> plan;
  std::string ptx;  // without the manifest
};
// Returns the target of the code, without the engines that the code does not use. Error: an unknown target.
Result<Target> target_of(const Compilation& compilation);
// Returns target_of(). Further error: the target is no processor.
Result<Target> processor_target_of(const Compilation& compilation);
// Returns the complete PTX file of a proved schedule. The manifest has its certificate, and a seal of plan
// and manifest.
std::string finish_ptx(const Compilation& compilation, GpuBuild build);
// Returns manifest and plan of a placed schedule, without code.
GpuBuild describe_build(const Compilation& compilation, const Engines& engines);
// Makes PTX of a placed schedule. Errors: those of target_of; the target is no GPU.
Result<GpuBuild> build_ptx(Compilation& compilation);

struct BuiltCubin {
  std::vector<std::byte> bytes;
  std::string summary;  // JSON: see tools/summary.h
  bool cached = false;
};
// Returns the shared object of an opened model for a processor, which is kept in the cache as a cubin is.
// Errors: those of the passes and of processor_target_of; no room for temporary files.
Result<BuiltCubin> build_shared_object(Compilation& compilation, const Cache& cache,
                                       const PassObserver& observer = {});

// Returns the cubin of an opened model. A cached cubin of an equal request, machine, mkc and assembler is
// returned at once. Without one, all passes, code generation and the assembler run, and the cubin is cached.
// `observer` is called after each pass.
//
// Times are added to the compilation. The compilation has no module if the cubin was cached. Errors: those of
// the passes, of build_ptx and of the assembler.
Result<BuiltCubin> build_cubin(Compilation& compilation, const Assembler& assembler, const Cache& cache,
                               const PassObserver& observer = {});

}  // namespace mkc
