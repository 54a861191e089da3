// The kernel as PTX.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "codegen/kinds.h"
#include "codegen/targets.h"

namespace mkc {

// The optimised kernel as LLVM IR text or as PTX. Requires a proved schedule.
std::string make_llvm_ir(const Schedule& schedule, const Target& target);
std::string make_ptx(const Schedule& schedule, const Target& target);

// PTX of data that a loaded cubin holds in the global `name`; goes to the end of a PTX file.
// Requires whole 8-byte words.
std::string ptx_bytes(const char* name, std::span<const std::byte> bytes);

}  // namespace mkc
