// Two expressions are compared for all values, by form or value by value. This header is internal to prove.
#pragma once

#include <string>

#include "scheduler/proof/context.h"

namespace mkc::proof {

enum class Agreement : uint8_t {
  kAlways,   // equal by canonical form
  kWalked,   // equal at each of the values of a small domain
  kDiffers,  // different at values within the bounds, which a step may have
  kUnknown,
};

struct Comparison {
  Agreement agreement = Agreement::kUnknown;
  std::string where{};   // kDiffers: "T = 5"
  int64_t a = 0, b = 0;  // kDiffers: values of the expressions there
};

// Compares expressions over the domain's symbols and coordinates. `coord_names` spells the coordinates.
// Values are walked where the expressions mention no list and the box of their symbols and coordinates is
// small.
Comparison compare(Context& c, const Expr& a, const Expr& b, const Domain& domain,
                   const std::vector<std::string>& coord_names);

}  // namespace mkc::proof
