#include "scheduler/search/settings.h"

namespace mkc {

Settings with(const Settings& before, Settings later) {
  later.splits.insert(before.splits.begin(), before.splits.end());
  later.placements.insert(before.placements.begin(), before.placements.end());
  if (later.wgmma_from == 0) later.wgmma_from = before.wgmma_from;
  if (later.fp8_from == 0) later.fp8_from = before.fp8_from;
  if (later.ring == 0) later.ring = before.ring;
  return later;
}

std::vector<SplitRule> split_rules(const Settings& settings) {
  std::vector<SplitRule> rules;
  for (const auto& [grids, parts] : settings.splits) rules.push_back({grids, parts, {}});
  return rules;
}

std::vector<PlacementRule> placement_rules(const Settings& settings) {
  std::vector<PlacementRule> rules;
  for (const auto& [grids, kind] : settings.placements) rules.push_back({grids, kind, {}});
  return rules;
}

}  // namespace mkc
