// A mutant is a schedule with one edit. The edits have named classes.
#pragma once

#include <span>
#include <vector>

#include "ir/schedule.h"
#include "tests/attack/schedules/rng.h"
#include "tests/attack/schedules/step.h"

namespace mkc::attack {

// An edit changes a schedule. `hints` are values at which the change shows.
struct Edit {
  Schedule& s;
  Rng& rng;
  std::vector<Hint> hints{};

  // A point is a value within the bounds of T, B or R at which an edit shows. Each point becomes a hint.
  struct Point {
    Expr symbol;  // T, B or R
    int64_t value = 0, lo = 0, hi = 0;
  };
  Point point();
  // Returns 1 at the point, and 0 at all other values.
  static Expr only_at(const Point& p);

  TaskGrid& grid(GridId id) { return s.program.grids[id]; }
  GridId any_grid();
  // Returns a random grid that `fits`; invalid where there is none.
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
