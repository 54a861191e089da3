// The parts of a plan blob (runtime/abi.h).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/abi.h"
#include "runtime/manifest.h"

namespace mkrt {

// Byte offsets of a plan's parts.
struct PlanLayout {
  uint64_t grids = 0, stream_begin = 0, segments = 0, bytes = 0;
};

constexpr PlanLayout plan_layout(const MkPlanHeader& header) {
  const auto align = [](uint64_t at) { return (at + 15) / 16 * 16; };
  PlanLayout layout;
  layout.grids = align(sizeof(MkPlanHeader));
  layout.stream_begin = align(layout.grids + uint64_t{header.grids} * sizeof(MkGrid));
  layout.segments = align(layout.stream_begin + (uint64_t{header.workers} + 1) * sizeof(uint32_t));
  layout.bytes = layout.segments + uint64_t{header.segments} * sizeof(MkSegment);
  return layout;
}

// The kinds of the manifest's launches, in their order. Requires check_plan.
std::vector<uint32_t> launch_kinds(const Manifest& manifest, std::span<const std::byte> plan);

}  // namespace mkrt
