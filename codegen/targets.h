// The capability table of code generation: what each GPU target has, and with what its code is made.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diag.h"

namespace mkc {

// What a worker has beside its threads.
struct Engines {
  bool bulk_copy = false;   // cp.async.bulk; otherwise the loader uses cp.async
  bool warpgroups = false;  // wgmma
};

struct Target {
  std::string name;      // "sm_90a"
  std::string cpu;       // LLVM's name
  std::string features;  // LLVM's: the PTX version
  std::string library;   // of task bodies with its primitives: begins a name of device_bitcode
  Engines engines;
  uint32_t shared_bytes = 0;  // that one block may have
};

std::span<const Target> targets();

// Error: the name of no target, with the nearest one that is.
Result<Target> find_target(std::string_view name);

}  // namespace mkc
