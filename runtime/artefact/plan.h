// The parts of a plan blob (runtime/abi/abi.h).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/abi/abi.h"
#include "runtime/artefact/manifest.h"

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

// What the manifest says of the sizes that the code was compiled for.
MkBounds bounds_of(const Manifest& manifest);

// The records of the manifest's grids. Errors: names of tensors and events that the manifest lacks.
Result<std::vector<MkGrid>> records_of(const Manifest& manifest);

// The plan is whole and the manifest's: its bounds and records are those of bounds_of and records_of,
// segments hold each task of a table once and are otherwise as the grid's placement asks. Errors name the
// record and its field. Requires check_manifest.
Status check_plan(const Manifest& manifest, std::span<const std::byte> plan);

// The kinds of the manifest's launches, in their order. Requires check_manifest.
std::vector<uint32_t> launch_kinds(const Manifest& manifest);

}  // namespace mkrt
