// Every tensor gets its memory here, and every event its counters.
#pragma once

#include <boost/dynamic_bitset.hpp>

#include "ir/schedule.h"

namespace mkc {

// Fills slots and arena sizes. Activations share memory where the events already keep them apart
// (grids_before). `keep_activations` keeps all activations until the step has ended.
void plan_memory(Schedule& schedule, bool keep_activations);

// Fills event_base, event_cells and the ticket counters of the placements.
void plan_counters(Schedule& schedule);

// Returns, by GridId b, the grids all of whose tasks happen before every task of b. The result holds for all
// values of the symbols, by the events alone. The order is sound but not complete.
std::vector<boost::dynamic_bitset<>> grids_before(const TaskProgram& program);

}  // namespace mkc
