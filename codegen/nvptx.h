// Kernels become PTX here.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "codegen/kinds.h"
#include "codegen/mode.h"
#include "codegen/targets.h"
#include "runtime/artefact/manifest.h"

namespace mkc {

// Returns the optimised kernels as LLVM IR text. Requires a proved schedule.
std::string make_llvm_ir(const Schedule& schedule, Mode mode, const Target& target);

// Returns the kernels as PTX, with `plan` in the global mk_plan. Requires a proved schedule. PTX that
// lint_ptx() refuses is a bug of mkc.
std::string make_ptx(const Schedule& schedule, Mode mode, std::span<const std::byte> plan,
                     const Target& target);

// Returns the kernels of codegen/device/probe.cc and measure.cc as PTX. Kernels whose instructions the target
// lacks are left out.
std::string make_probe_ptx(const Target& target);

// Appends the global mk_manifest to the PTX and returns the result. A manifest without certificate and seals
// gets 4096 spare bytes for them.
std::string add_manifest(std::string ptx, const mkrt::Manifest& manifest);

// Returns LLVM's version, such as "22.1.8".
std::string llvm_version();

}  // namespace mkc
