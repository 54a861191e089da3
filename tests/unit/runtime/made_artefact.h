// These functions make artefacts from a manifest alone, for tests without a compiler.
#pragma once

#include <cstring>

#include "runtime/artefact/plan.h"
#include "runtime/artefact/seal.h"

namespace mkrt::test {

template <class T>
void put(std::vector<std::byte>& plan, uint64_t at, const T& value) {
  std::memcpy(plan.data() + at, &value, sizeof(T));
}

// Returns the plan that a manifest describes. Worker 0 has all tasks of table grids. Each worker has one
// share of a range grid, and a segment of each claimed grid.
inline std::vector<std::byte> plan_of(const Manifest& m) {
  std::vector<std::vector<MkSegment>> streams(m.workers);
  for (uint32_t g = 0; g < m.grids.size(); ++g)
    for (uint32_t w = 0; w < m.workers; ++w) {
      const GridPlacement placement = m.grids[g].placement;
      const auto inlined = static_cast<uint32_t>(m.grids[g].inline_grid);
      if (placement == GridPlacement::kTable && w == 0)
        streams[w].push_back({g, 0, m.grids[g].tasks, inlined});
      if (placement == GridPlacement::kRange) streams[w].push_back({g, w, kRangeCount, inlined});
      if (placement == GridPlacement::kQueue || placement == GridPlacement::kReady)
        streams[w].push_back({g, 0, kRangeCount, inlined});
    }
  MkPlanHeader header{kPlanMagic, static_cast<uint32_t>(m.grids.size()), m.workers, 0, bounds_of(m)};
  for (const auto& stream : streams) header.segments += static_cast<uint32_t>(stream.size());
  const PlanLayout layout = plan_layout(header);
  std::vector<std::byte> plan(layout.bytes);
  put(plan, 0, header);
  const std::vector<MkGrid> records = records_of(m).value();
  for (size_t g = 0; g < records.size(); ++g) put(plan, layout.grids + g * sizeof(MkGrid), records[g]);
  uint32_t begin = 0;
  for (uint32_t w = 0; w < m.workers; ++w) {
    for (const MkSegment& s : streams[w]) put(plan, layout.segments + sizeof(MkSegment) * begin++, s);
    put(plan, layout.stream_begin + (w + 1) * sizeof(uint32_t), begin);
  }
  return plan;
}

// Returns the artefact of a manifest, certified and sealed.
inline Artefact made_artefact(Manifest m, std::vector<std::byte> image = {}) {
  m.certificate.verdict = kProved;
  m.certificate.version = m.mkc_version;
  m.certificate.symbols.clear();
  for (const ManifestSymbol& s : m.symbols) m.certificate.symbols.push_back({s.name, s.lo, s.hi});
  Artefact a{std::move(m), {}, std::move(image)};
  a.plan = plan_of(a.manifest);
  seal(a);
  return a;
}

}  // namespace mkrt::test
