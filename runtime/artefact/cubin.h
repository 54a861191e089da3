// A cubin or shared object has two globals beside its code: mk_manifest and mk_plan.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace mkrt {

// The objects are parts of the file's bytes.
struct CubinObjects {
  std::span<const std::byte> manifest, plan;
};

// Returns the two globals, with every bound checked. Errors begin with `name`: not a 64-bit ELF file,
// truncated, or without these globals.
Result<CubinObjects> find_objects(std::span<const std::byte> bytes, const std::string& name);

}  // namespace mkrt
