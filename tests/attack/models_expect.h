// Expected has what a case's rows should be, by the float64 model, and how far off they may be.
#pragma once

#include <vector>

#include "tests/attack/models_feed.h"

namespace mkc::attack {

// Expected has rows up to the first that rounding may send to other experts.
struct Expected {
  std::vector<std::vector<std::vector<double>>> exact;  // by sequence and row
  std::vector<std::vector<double>> bounds;              // of the distance, by sequence and row
};

// Returns the random model of a case. Of some models with experts it is the one with the most rows to
// compare.
reference::Model model_of(const ModelCase& c);

// Returns the exact rows. All have one bound, which an honest engine's worst row sets.
Expected expect(const ModelCase& c, const reference::Model& model);

// Widens the bound of each row by more honest runs. The weights of each run differ by up to a rounding.
void widen_bounds(const ModelCase& c, const reference::Model& model, Expected& expected);

}  // namespace mkc::attack
