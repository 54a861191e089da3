// Which grids' tasks happen before which, for all values. Internal to prove.
#pragma once

#include <boost/dynamic_bitset.hpp>

#include "scheduler/proof/counts.h"

namespace mkc::proof {

using GridSet = boost::dynamic_bitset<>;

// What events guarantee once counts are right. Streams of workers guarantee more, which no rule relies on.
struct Order {
  std::vector<uint32_t> sorted;  // the grids' numbers, sources of events and streams first
  std::vector<GridSet> before;   // by GridId b: grids each task of which happens before each task of b
  std::vector<GridSet> reaches;  // by GridId b: grids each task of which happens before some task of b
};

// Shows that no step deadlocks, whatever its values: the grids have one order, in which every stream and
// every event leads from earlier to later ones. Then derives what happens before what (docs/proof.md).
Result<Order> check_order(Context& c, const Sources& sources);

// Whether each task of `a` whose region along `from` meets that of a task of `b` along `to` happens before
// it. Both regions are of one tensor.
bool ordered_where_they_meet(Context& c, const Sources& sources, const Order& order, GridId a,
                             const std::vector<Along>& from, GridId b, const std::vector<Along>& to);

}  // namespace mkc::proof
