#include "codegen/targets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "runtime/device/processor.h"

namespace mkc {

// The sizes of shared memory are from the CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability". The 1 KiB that the driver keeps of each block is subtracted.
std::span<const Target> targets() {
  static const Target kTargets[] = {
      {"sm_80", "sm_80", "+ptx87", {"gpu", "ampere"}, {}, 163 * 1024},
      {"sm_86", "sm_86", "+ptx87", {"gpu", "ampere"}, {}, 99 * 1024},
      {"sm_89", "sm_89", "+ptx87", {"gpu", "ada"}, {}, 99 * 1024},
      {"sm_90a", "sm_90a", "+ptx87", {"gpu", "hopper"}, {true, true}, 227 * 1024},
      {"sm_100a", "sm_100a", "+ptx87", {"gpu", "hopper"}, {true, false}, 227 * 1024},
      {"sm_120", "sm_120", "+ptx87", {"gpu", "hopper"}, {true, false}, 99 * 1024},
      {"sm_121", "sm_121", "+ptx88", {"gpu", "hopper"}, {true, false}, 99 * 1024},
      {"x86-64-v3", "x86-64-v3", "", {"processor_v3"}, kProcessorEngines},
      {"x86-64-avx512", "x86-64-v4", "+avx512vnni", {"processor_avx512"}, kProcessorEngines},
      {"x86-64-v4", "x86-64-v4", "+avx512bf16,+avx512vbmi,+avx512vnni", {"processor_v4"}, kProcessorEngines},
      {"x86-64-amx",
       "x86-64-v4",
       "+amx-bf16,+amx-int8,+amx-tile,+avx512bf16,+avx512vbmi,+avx512vnni",
       {"processor_amx"},
       kProcessorEngines},
  };
  return kTargets;
}

std::span<const std::string_view> features_to_go_without() {
  static constexpr std::string_view kFeatures[] = {"bulk", "setmaxnreg", "wgmma"};
  return kFeatures;
}

Result<std::vector<std::string>> parse_without(std::string_view list) {
  const std::vector<std::string> known(features_to_go_without().begin(), features_to_go_without().end());
  std::set<std::string> features;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string name(list.substr(begin, end - begin));
    if (std::ranges::find(known, name) == known.end()) {
      const std::string near = nearest_name(name, known);
      return Error{fmt::format("found \"{}\"{}, expected some of {}", name,
                               near.empty() ? "" : fmt::format(", did you mean {}?", near),
                               fmt::join(known, ", "))};
    }
    features.insert(name);
    begin = end + 1;
  }
  return std::vector<std::string>(features.begin(), features.end());
}

Engines without(Engines engines, const std::vector<std::string>& features) {
  for (const std::string& feature : features) {
    if (feature == "bulk") engines.bulk_copy = false;
    if (feature == "setmaxnreg") engines.setmaxnreg = false;
    if (feature == "wgmma") engines.warpgroups = false;
  }
  return engines;
}

Result<Target> target_of_capability(uint32_t major, uint32_t minor) {
  const std::string name = fmt::format("sm_{}{}", major, minor);
  std::vector<std::string> known;
  for (const Target& target : targets()) {
    if (is_processor(target)) continue;
    if (target.name == name || target.name == name + "a") return target;
    known.push_back(target.name);
  }
  return Error{
      fmt::format("no target for compute capability {}.{}; known: {}", major, minor, fmt::join(known, ", "))};
}

bool is_processor(const Target& target) {
  return !target.engines.loader;
}

Result<Target> target_of_processor() {
  const std::string level = mkrt::processor_target();
  return level.empty() ? Result<Target>(Error{"the processor is not x86-64-v3: it lacks AVX2, FMA or F16C"})
                       : find_target(level);
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
