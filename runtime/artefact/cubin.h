// What mkc keeps in a cubin beside its kernels: the globals mk_manifest and mk_plan.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace mkrt {

// Parts of a cubin's bytes.
struct CubinObjects {
  std::span<const std::byte> manifest, plan;
};

// Errors, beginning with `name`: not a 64-bit ELF, truncated, without these globals. Every bound is checked.
Result<CubinObjects> find_objects(std::span<const std::byte> cubin, const std::string& name);

}  // namespace mkrt
