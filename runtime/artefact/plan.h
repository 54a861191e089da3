// A plan blob (runtime/abi/abi.h) has this layout and passes these checks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/abi/abi.h"
#include "runtime/artefact/manifest.h"

namespace mkrt {

// The members are byte offsets of a plan's parts, and its size.
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

// Returns the manifest's values of the sizes that the code was compiled for.
MkBounds bounds_of(const Manifest& manifest);

// Returns the records of the manifest's grids. Errors: a tensor or event name that the manifest lacks; a
// place that a record cannot hold.
Result<std::vector<MkGrid>> records_of(const Manifest& manifest);

// Checks that the plan is whole and belongs to the manifest. Bounds and records must equal those of bounds_of
// and records_of. Segments must hold each task of a table once, and fit the placement of other grids.
//
// Errors name the record and its field. Requires check_manifest.
Status check_plan(const Manifest& manifest, std::span<const std::byte> plan);

// Returns the kind of each of the manifest's launches, in their order. Requires check_manifest.
std::vector<uint32_t> launch_kinds(const Manifest& manifest);

}  // namespace mkrt
