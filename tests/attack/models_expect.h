// Expected has what a case's rows should be, by the float64 model, and how far off they may be.
#pragma once

#include <vector>

#include "tests/attack/models_feed.h"

namespace mkc::attack {

// Expected has rows up to the first that rounding may send to other experts.
struct Expected {
  std::vector<std::vector<std::vector<double>>> exact;  // by sequence and row
  double bound = 0;                                     // of all rows' distances
};

// Returns the random model of a case. Of some models with experts it is the one with the most rows to
// compare.
reference::Model model_of(const ModelCase& c);

Expected expect(const ModelCase& c, const reference::Model& model);

// Returns a bound from more honest runs than that of expect(). Each begins with embeddings that differ a
// little, and so rounds otherwise.
double second_bound(const ModelCase& c, const reference::Model& model, const Expected& expected);

}  // namespace mkc::attack
