// A step as PTX.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "codegen/kinds.h"
#include "codegen/mode.h"
#include "codegen/targets.h"
#include "runtime/artefact/manifest.h"

namespace mkc {

// The optimised kernels as LLVM IR text. Requires a proved schedule.
std::string make_llvm_ir(const Schedule& schedule, Mode mode, const Target& target);

// The kernels as PTX, with `plan` in the global mk_plan. Requires a proved schedule. What lint_ptx refuses is
// a bug of mkc.
std::string make_ptx(const Schedule& schedule, Mode mode, std::span<const std::byte> plan,
                     const Target& target);

// The kernels of codegen/device/probe.cc and measure.cc as PTX: those whose instructions the target has.
std::string make_probe_ptx(const Target& target);

// The same PTX with the global mk_manifest behind it. There is room for the certificate and the seals of a
// manifest that has none yet.
std::string add_manifest(std::string ptx, const mkrt::Manifest& manifest);

// "22.1.8"
std::string llvm_version();

}  // namespace mkc
