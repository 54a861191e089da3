// Where every tensor lies, and which counters each event has.
#pragma once

#include <boost/dynamic_bitset.hpp>

#include "ir/schedule.h"

namespace mkc {

constexpr uint64_t kSlotAlignment = 256;

// Bytes each tensor needs, at the symbols' upper bounds. Weights that no grid reads and inputs take none;
// plain weights of rank 1 are kept in f32, those of rank 2 in their own type, packed ones as
// runtime/packing.h lays them out.
std::vector<uint64_t> slot_bytes(const TaskProgram& program);

// Counters each event needs, at the symbols' upper bounds: of its cells, and of their log where it keeps one.
// Needs the placements.
std::vector<uint32_t> event_counters(const Schedule& schedule);

// Fills slots and arena sizes. Activations share memory where the events already keep them apart (see
// grids_before), unless all are to be kept until the step has ended.
void plan_memory(Schedule& schedule, bool keep_activations);

// Fills event_base, the tickets of the placements, and event_cells.
void plan_counters(Schedule& schedule);

// By GridId b: the grids all of whose tasks happen before every task of b, for all values of the symbols,
// by the events alone. Sound, not complete.
std::vector<boost::dynamic_bitset<>> grids_before(const TaskProgram& program);

}  // namespace mkc
