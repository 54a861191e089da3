// Grids' tasks happen in an order that holds for all values. This header is internal to prove.
#pragma once

#include <boost/dynamic_bitset.hpp>

#include "scheduler/proof/counts.h"

namespace mkc::proof {

using GridSet = boost::dynamic_bitset<>;

// Order is the order that events guarantee once counts are right. Workers' streams guarantee more, but no
// rule relies on that.
struct Order {
  // `sorted` has the grids' numbers. A grid follows the grids before it in events and streams.
  std::vector<uint32_t> sorted;
  std::vector<GridSet> before;   // by GridId b: grids each task of which happens before each task of b
  std::vector<GridSet> reaches;  // by GridId b: grids each task of which happens before some task of b
};

// Proves that no step deadlocks, whatever its values. The grids have one order in which every stream and
// every event leads from earlier to later grids. Derives from it which grids happen before which
// (docs/proof.md).
Result<Order> check_order(Context& c, const Sources& sources);

// Tells whether a task of `a` happens before a task of `b` wherever their regions overlap. `from` and `to`
// describe the regions of `a` and `b`, which are of one tensor.
bool ordered_where_they_meet(Context& c, const Sources& sources, const Order& order, GridId a,
                             const std::vector<Along>& from, GridId b, const std::vector<Along>& to);

}  // namespace mkc::proof
