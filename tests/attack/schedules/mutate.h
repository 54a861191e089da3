// Mutants of schedules: one edit each, in named classes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/schedule.h"
#include "tests/attack/schedules/rng.h"
#include "tests/attack/schedules/step.h"

namespace mkc::attack {

// A schedule under edit. `hints`: values at which the edit shows.
struct Edit {
  Schedule& s;
  Rng& rng;
  std::vector<Hint> hints{};

  // A value in the bounds of T, B, R, q_len or kv_len at which an edit is to show, noted as a hint.
  struct Point {
    Expr symbol;  // T, B or R
    int64_t value = 0, lo = 0, hi = 0;
  };
  Point point();
  // 1 at the point, 0 at all other values.
  static Expr only_at(const Point& p);

  TaskGrid& grid(GridId id) { return s.program.grids[id]; }
  GridId any_grid();
  // A grid that `fits`; invalid where there is none.
  template <class Fits>
  GridId grid_where(Fits fits) {
    std::vector<GridId> found;
    for (GridId id : s.program.grids.ids())
      if (fits(s.program.grids[id])) found.push_back(id);
    return found.empty() ? GridId{} : rng.pick(found);
  }
  template <class Fits>
  GridId placed_where(Fits fits) {
    std::vector<GridId> found;
    for (GridId id : s.program.grids.ids())
      if (fits(s.placements[id.index])) found.push_back(id);
    return found.empty() ? GridId{} : rng.pick(found);
  }
};

struct MutantClass {
  const char* name;
  bool (*apply)(Edit& edit);  // false: the schedule has nothing of the kind
};

std::span<const MutantClass> wait_classes();     // waits and notifications
std::span<const MutantClass> count_classes();    // what events expect
std::span<const MutantClass> stream_classes();   // segments, placements, tickets
std::span<const MutantClass> memory_classes();   // slots, arenas, counters, ring
std::span<const MutantClass> region_classes();   // what grids declare, and of which tensors
std::span<const MutantClass> program_classes();  // symbols, coordinates, attributes, order
std::vector<MutantClass> all_classes();

}  // namespace mkc::attack
