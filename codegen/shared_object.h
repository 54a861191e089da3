// A processor's kernel is machine code in a shared object, with manifest and plan.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "codegen/mode.h"
#include "codegen/targets.h"
#include "ir/schedule.h"
#include "runtime/artefact/manifest.h"

namespace mkc {

// Returns the object file of the kernels of a mode. Its symbols are mk_kernel or mk_grid_<kind>, and mk_pack.
// Requires a placed schedule and a processor's target. `quick` suits runs of few steps: the
// kernel calls bodies that were compiled when mkc was built, for any sizes.
std::vector<std::byte> make_processor_object(const Schedule& schedule, Mode mode, const Target& target,
                                             bool quick = false);

// Returns the same code as LLVM IR, before it becomes machine code.
std::string make_processor_ir(const Schedule& schedule, Mode mode, const Target& target);

// Links an object file to a shared object that also has the globals mk_plan and mk_manifest, as a cubin has.
// The manifest has room for a certificate and seals. `quick` is that of the object file. Error: a temporary
// file cannot be written.
Result<std::vector<std::byte>> link_processor_object(std::span<const std::byte> object,
                                                     std::span<const std::byte> plan,
                                                     const mkrt::Manifest& manifest, const Target& target,
                                                     bool quick = false);

}  // namespace mkc
