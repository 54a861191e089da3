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
  bool setmaxnreg = true;   // around the code of warpgroups
};

// Parts of a device that code can go without, and what does their work then: "wgmma" (mma.sync), "setmaxnreg"
// (nothing: threads keep the registers they begin with, and may spill), "bulk" (cp.async of all lanes).
std::span<const std::string_view> parts_to_go_without();

// Of a list with commas between, sorted and each once. Errors: an unknown name, with the nearest; none.
Result<std::vector<std::string>> parse_without(std::string_view list);

// The engines less these parts.
Engines without(Engines engines, const std::vector<std::string>& parts);

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

// That of a device's compute capability. Error: mkc has none, with those that it has.
Result<Target> target_of_capability(uint32_t major, uint32_t minor);

}  // namespace mkc
