// The search decides these settings. The `schedule` of a model.yaml can ask for each of them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/schedule.h"

namespace mkc {

// Splits and placements are by kind of a layer's grids. A kind is a pattern: "l*.down" stands for "l0.down",
// "l1.down" and so on.
struct Settings {
  std::map<std::string, int64_t> splits{};  // number of parts of a product
  uint32_t wgmma_from = 0;                  // tokens from which warpgroups multiply; 0: as in the program
  uint32_t fp8_from = 0;  // tokens from which activations are 8-bit floats; 0: as in the program
  uint32_t ring = 0;      // ring stages; 0: all that the machine has room for
  std::map<std::string, PlacementKind> placements{};
  bool operator==(const Settings&) const = default;
};

// Returns `later`, completed by the settings of `before` that it leaves open.
Settings with(const Settings& before, Settings later);

// Return the rules as the user would write them, without a place.
std::vector<SplitRule> split_rules(const Settings& settings);
std::vector<PlacementRule> placement_rules(const Settings& settings);

}  // namespace mkc
