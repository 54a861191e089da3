#include "scheduler/events.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/dynamic_bitset.hpp>
#include <map>

#include "runtime/abi.h"
#include "scheduler/events_map.h"

namespace mkc {
namespace {

using GridSet = boost::dynamic_bitset<>;

// An access of an earlier grid that the consumer must come after, and the consumer's own.
struct Dependence {
  GridId producer;
  const Access* earlier = nullptr;
  const Access* later = nullptr;
};

// One awaited event, before it has a name: cells, and who notifies them.
struct EventPlan {
  std::vector<Expr> dims;
  std::vector<Expr> cell;       // that a task of the consumer waits for
  std::vector<NotifyMap> maps;  // one for each producer
  std::string reason;
};

class Deriver {
 public:
  Deriver(TaskProgram program, const EventCosts& costs)
      : program_(std::move(program)),
        costs_(costs),
        uses_(program_.tensors.size()),
        before_(program_.grids.size(), GridSet(program_.grids.size())),
        flows_(before_) {
    for (const Symbol& s : program_.symbols) lowest_.push_back(s.bounds.lo);
  }

  Result<TaskProgram> run(std::vector<std::string>* reasons) {
    for (GridId g : program_.grids.ids()) {
      if (const std::vector<Dependence> needed = direct(g); !needed.empty()) add_event(g, plan(g, needed));
      note_uses(g);
    }
    for (const TaskGrid& grid : program_.grids)
      if (grid.notifies.size() > mkrt::kMaxNotifies)
        return error_at(grid.loc, fmt::format("%{} would notify {} events, at most {} are possible",
                                              grid.name, grid.notifies.size(), mkrt::kMaxNotifies));
    if (reasons != nullptr) *reasons = reasons_;
    return std::move(program_);
  }

 private:
  struct Use {
    GridId grid;
    const Access* access;
    bool writes;
  };

  TaskProgram program_;
  const EventCosts& costs_;
  std::vector<int64_t> lowest_;         // symbols' lower bounds
  std::vector<std::vector<Use>> uses_;  // by TensorId, of the grids so far
  std::vector<GridSet> before_;         // by GridId b: grids all of whose tasks precede every task of b
  std::vector<GridSet> flows_;          // by GridId b: grids each task of which precedes some task of b
  std::vector<EventPlan> plans_;        // by EventId
  std::vector<std::string> reasons_;    // by EventId

  void note_uses(GridId g) {
    for (const Access& a : program_.grids[g].reads) uses_[a.tensor.index].push_back({g, &a, false});
    for (const Access& a : program_.grids[g].writes) uses_[a.tensor.index].push_back({g, &a, true});
  }

  // All dependences of the grid but those that others imply: in every plan each cell hears of at least one
  // task of each producer that is kept.
  std::vector<Dependence> direct(GridId g) const {
    std::vector<Dependence> all;
    const auto collect = [&](const Access& later, bool writes) {
      for (const Use& use : uses_[later.tensor.index])
        if (use.writes || writes) all.push_back({use.grid, use.access, &later});
    };
    for (const Access& a : program_.grids[g].reads) collect(a, false);
    for (const Access& a : program_.grids[g].writes) collect(a, true);
    std::vector<Dependence> kept;
    for (const Dependence& d : all) {
      const bool implied = std::any_of(all.begin(), all.end(), [&](const Dependence& other) {
        return before_[other.producer.index][d.producer.index] && at_least_one_task(other.producer);
      });
      if (!implied) kept.push_back(d);
    }
    return kept;
  }

  int64_t at_least(const Expr& e) const { return std::max<int64_t>(1, evaluate(e, lowest_)); }

  // What a producer's tasks notify if the consumer's coordinate `k` tells cells apart.
  NotifyMap map_by(uint32_t k, GridId producer, GridId consumer,
                   const std::vector<Dependence>& needed) const {
    const TaskGrid &from_grid = program_.grids[producer], &to_grid = program_.grids[consumer];
    const NotifyMap everything = notify_all(program_, producer, to_grid.coords[k].extent);
    std::optional<NotifyMap> found;
    for (const Dependence& d : needed) {
      if (d.producer != producer) continue;
      std::optional<NotifyMap> here;
      for (size_t dim = 0; dim < d.later->region.size() && !here; ++dim) {
        const Expr& size = program_.tensors[d.later->tensor].shape[dim];
        const auto from = strips_of(d.earlier->region[dim], from_grid, size);
        const auto to = strips_of(d.later->region[dim], to_grid, size);
        if (from && to && to->coord == k) here = notify_meeting(program_, producer, *from, *to);
      }
      if (!here || !here->complete || (found && *found != *here)) return everything;
      found = here;
    }
    return *found;
  }

  std::vector<GridId> producers_of(const std::vector<Dependence>& needed) const {
    std::vector<GridId> out;
    for (const Dependence& d : needed) out.push_back(d.producer);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  // A cell for each value of one coordinate where that lets tasks start sooner than it costs, else one cell.
  EventPlan plan(GridId g, const std::vector<Dependence>& needed) const {
    const TaskGrid& grid = program_.grids[g];
    const std::vector<GridId> producers = producers_of(needed);
    EventPlan best;
    for (GridId p : producers) best.maps.push_back(notify_all(program_, p, 1));
    best.reason = "one cell: every task needs all that the producers write";
    double best_gain_ns = 0;
    for (uint32_t k = 0; k < grid.coords.size(); ++k) {
      EventPlan fine;
      fine.dims = {grid.coords[k].extent};
      fine.cell = {coord(k)};
      double rounds = 0, cells_notified = 0;
      bool partial = false;
      for (GridId p : producers) {
        fine.maps.push_back(map_by(k, p, g, needed));
        const double share = static_cast<double>(at_least(tasks_of(program_.grids[p]))) / costs_.workers;
        rounds += share;
        cells_notified += std::max(1.0, share) * (fine.maps.back().cells_per_task - 1);
        partial = partial || fine.maps.back().partial;
      }
      const auto cells = static_cast<double>(at_least(grid.coords[k].extent));
      const double sooner_ns = std::max(1.0, rounds) * costs_.task_ns * (1 - 1 / cells);
      const double gain_ns = sooner_ns - cells_notified * costs_.notify_ns;
      if (!partial) continue;
      if (gain_ns > best_gain_ns) {
        fine.reason = fmt::format(
            "a cell for each {}: tasks start about {:.0f} ns sooner, further notifications take {:.0f} ns",
            grid.coords[k].name, sooner_ns, cells_notified * costs_.notify_ns);
        best = std::move(fine), best_gain_ns = gain_ns;
      } else if (best_gain_ns == 0) {
        best.reason =
            fmt::format("one cell: a cell for each {} would gain {:.0f} ns", grid.coords[k].name, gain_ns);
      }
    }
    return best;
  }

  void add_event(GridId g, EventPlan plan) {
    uint32_t e = 0;
    while (e < plans_.size() && !(plans_[e].dims == plan.dims && plans_[e].maps == plan.maps)) ++e;
    program_.grids[g].waits.push_back({EventId{e}, plan.cell});
    if (e == plans_.size()) {
      Event event;
      event.name = program_.grids[g].name + "_ready";
      event.dims = plan.dims;
      event.loc = program_.grids[g].loc;
      for (const NotifyMap& map : plan.maps) {
        event.expect = event.expect + map.expect;
        program_.grids[map.grid].notifies.push_back(
            {EventId{e}, plan.dims.empty() ? Region{} : Region{map.cells}});
      }
      program_.events.add(std::move(event));
      reasons_.push_back(plan.reason);
      plans_.push_back(plan);
    }
    order(g, plan);
  }

  // Extends before_ and flows_ to the grid that waits for the plan's event.
  void order(GridId g, const EventPlan& plan) {
    GridSet& before = before_[g.index];
    GridSet& flows = flows_[g.index];
    for (const NotifyMap& map : plan.maps) {
      const size_t p = map.grid.index;
      if (map.complete && at_least_one_task(map.grid)) before |= before_[p];
      GridSet with_producer = flows_[p];
      with_producer.set(p);
      if (!map.partial) before |= with_producer;
      // Every cell is awaited by a task of this grid, and each task of the producer notifies one.
      if (map.complete && at_least_one_task(g)) flows |= with_producer;
    }
  }

  bool at_least_one_task(GridId g) const {
    std::vector<Bounds> symbols;
    for (const Symbol& s : program_.symbols) symbols.push_back(s.bounds);
    const auto& coords = program_.grids[g].coords;
    return std::all_of(coords.begin(), coords.end(),
                       [&](const Coord& c) { return bounds(c.extent, symbols).lo >= 1; });
  }
};

}  // namespace

Result<TaskProgram> derive_events(TaskProgram program, const EventCosts& costs,
                                  std::vector<std::string>* reasons) {
  return Deriver(std::move(program), costs).run(reasons);
}

}  // namespace mkc
