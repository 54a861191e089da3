// Each target has one row: its engines, and LLVM's names for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diag.h"

namespace mkc {

// Engines are the hardware engines that a worker can use.
struct Engines {
  bool bulk_copy = false;   // cp.async.bulk; otherwise the loader uses cp.async
  bool warpgroups = false;  // wgmma
  bool setmaxnreg = true;   // setmaxnreg around the code of warpgroups
  // A loader warp brings streamed operands through a ring. Workers of a processor are single threads, which
  // have none: bodies read these operands where they lie (codegen/processor/).
  bool loader = true;
};
constexpr Engines kProcessorEngines{.setmaxnreg = false, .loader = false};

// Returns the names of the target features that code can do without. "wgmma" is replaced by mma.sync, and
// "bulk" by cp.async of all lanes. "setmaxnreg" has no replacement: threads keep their initial registers and
// may spill.
std::span<const std::string_view> features_to_go_without();

// Returns the features of a comma-separated list, sorted and without duplicates. Errors: an unknown name,
// with the nearest known one; an empty list.
Result<std::vector<std::string>> parse_without(std::string_view list);

// Returns the engines without these features.
Engines without(Engines engines, const std::vector<std::string>& features);

struct Target {
  std::string name;      // "sm_90a"
  std::string cpu;       // LLVM's name of the processor
  std::string features;  // LLVM's feature string: the PTX version, or instruction sets
  // Libraries of device_bitcode(), in the order to link. A GPU has the one of all GPUs' bodies, then the one
  // of the primitives that differ between GPUs.
  std::vector<std::string> libraries;
  Engines engines;
  uint32_t shared_bytes = 0;  // most dynamic shared memory of one block
};

std::span<const Target> targets();

// Returns the target with this name. Error: an unknown name, with the nearest known one.
Result<Target> find_target(std::string_view name);

// Tells whether a target is a processor of this machine's kind, not a GPU.
bool is_processor(const Target& target);

// Returns the best target that the running processor can execute. Error: it lacks AVX2, FMA or F16C.
Result<Target> target_of_processor();

// Returns the target of a compute capability. Error: mkc has no such target; the message lists the known
// ones.
Result<Target> target_of_capability(uint32_t major, uint32_t minor);

}  // namespace mkc
