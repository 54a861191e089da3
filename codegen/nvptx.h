// A step as PTX.
#pragma once

#include <string>

#include "codegen/kinds.h"
#include "codegen/mode.h"
#include "codegen/targets.h"
#include "runtime/manifest.h"

namespace mkc {

// The optimised kernels as LLVM IR text. Requires a proved schedule.
std::string make_llvm_ir(const Schedule& schedule, Mode mode, const Target& target);

// The kernels as PTX, with `manifest` and its plan in the globals mk_manifest and mk_plan
// (runtime/artefact.h); its launches say which. Requires a proved schedule. What lint_ptx refuses is a bug of
// mkc.
std::string make_ptx(const Schedule& schedule, const mkrt::Manifest& manifest, const Target& target);

// "22.1.8"
std::string llvm_version();

}  // namespace mkc
