// What a search decides: settings that a model.yaml's `schedule` could ask for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace mkc {

// Splits and placements are of kinds of a layer's grids, by pattern ("l*.down" for "l0.down", "l1.down" and
// so on).
struct Settings {
  std::map<std::string, int64_t> splits{};  // parts of a product
  uint32_t wgmma_from = 0;  // tokens from which on warpgroups multiply; 0: as the program has it
  uint32_t ring = 0;        // stages; 0: all that the machine has room for
  std::map<std::string, PlacementKind> placements{};
  bool operator==(const Settings&) const = default;
};

// `later` over `before`.
Settings with(const Settings& before, Settings later);

// As the user would write them, without a place.
std::vector<SplitRule> split_rules(const Settings& settings);
std::vector<PlacementRule> placement_rules(const Settings& settings);

}  // namespace mkc
