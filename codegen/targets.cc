#include "codegen/targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace mkc {

// Shared memory: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", less the 1
// KiB that the driver keeps of each block's.
std::span<const Target> targets() {
  static const Target kTargets[] = {
      {"sm_80", "sm_80", "+ptx87", "ampere", {}, 163 * 1024},
      {"sm_86", "sm_86", "+ptx87", "ampere", {}, 99 * 1024},
      {"sm_89", "sm_89", "+ptx87", "ada", {}, 99 * 1024},
      {"sm_90a", "sm_90a", "+ptx87", "hopper", {true, true}, 227 * 1024},
      {"sm_100a", "sm_100a", "+ptx87", "hopper", {true, false}, 227 * 1024},
      {"sm_120", "sm_120", "+ptx87", "hopper", {true, false}, 99 * 1024},
  };
  return kTargets;
}

Result<Target> find_target(std::string_view name) {
  std::vector<std::string> known;
  for (const Target& target : targets()) {
    if (target.name == name) return target;
    known.push_back(target.name);
  }
  const std::string near = nearest_name(name, known);
  return Error{fmt::format("unknown target \"{}\"{}; known: {}", name,
                           near.empty() ? "" : fmt::format(", did you mean {}?", near),
                           fmt::join(known, ", "))};
}

}  // namespace mkc
