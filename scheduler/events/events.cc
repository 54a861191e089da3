#include "scheduler/events/events.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/dynamic_bitset.hpp>

#include "ir/bodies.h"
#include "runtime/abi/abi.h"
#include "scheduler/events/events_map.h"

namespace mkc {
namespace {

using GridSet = boost::dynamic_bitset<>;

// Dependence is an access of an earlier grid that must precede the consumer's access `later`.
struct Dependence {
  GridId producer;
  const Access* earlier = nullptr;
  const Access* later = nullptr;
};

// One awaited event before it has a name: its cells, and the grids that notify them.
struct EventPlan {
  std::vector<Expr> dims;
  std::vector<Expr> cell;       // cell that a task of the consumer waits for
  std::vector<NotifyMap> maps;  // one map per producer
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
    lowest_ = lowest_values(program_.symbols);
    symbol_bounds_ = symbol_bounds(program_.symbols);
  }

  Result<TaskProgram> run(std::vector<std::string>* reasons) {
    for (GridId g : program_.grids.ids()) {
      if (const std::vector<Dependence> tables = looked_up(g); !tables.empty()) {
        double gain_ns = 0;
        const EventPlan lookup = plan_by({}, g, producers_of(tables), tables, gain_ns).value();
        add_event(g, lookup, true);
        order(g, lookup);
      }
      if (const std::vector<Dependence> needed = direct(g); !needed.empty()) {
        std::optional<EventPlan> found = plan(g, needed);
        if (!found)
          return error_at(program_.grids[g].loc,
                          fmt::format("%{} has no event: the tasks it waits for cannot be counted by its "
                                      "coordinates",
                                      program_.grids[g].name));
        add_event(g, *found, false);
        order(g, *found);
      }
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
  std::vector<int64_t> lowest_;  // values of the symbols, all at their lower bounds
  std::vector<Bounds> symbol_bounds_;
  std::vector<std::vector<Use>> uses_;  // by TensorId: uses by the grids so far
  std::vector<GridSet> before_;         // by GridId b: grids all of whose tasks precede every task of b
  std::vector<GridSet> flows_;          // by GridId b: grids each task of which precedes some task of b
  std::vector<EventPlan> plans_;        // by EventId
  std::vector<std::string> reasons_;    // by EventId

  void note_uses(GridId g) {
    for (const Access& a : program_.grids[g].reads)
      if (!a.stream) uses_[a.tensor.index].push_back({g, &a, false});
    for (const Access& a : program_.grids[g].writes) uses_[a.tensor.index].push_back({g, &a, true});
  }

  // Returns the dependences of the grid except those that its lookup or other dependences imply. In every
  // plan, each cell is notified by at least one task of each kept producer.
  std::vector<Dependence> direct(GridId g) const {
    std::vector<Dependence> all;
    const auto collect = [&](const Access& later, bool writes) {
      for (const Use& use : uses_[later.tensor.index])
        if (use.writes || writes) all.push_back({use.grid, use.access, &later});
    };
    for (const Access& a : program_.grids[g].reads)
      if (!a.stream) collect(a, false);
    for (const Access& a : program_.grids[g].writes) collect(a, true);
    std::vector<Dependence> kept;
    for (const Dependence& d : all) {
      const bool implied =
          before_[g.index][d.producer.index] || std::any_of(all.begin(), all.end(), [&](const Dependence& o) {
            return before_[o.producer.index][d.producer.index] && at_least_one_task(o.producer);
          });
      if (!implied) kept.push_back(d);
    }
    return kept;
  }

  int64_t at_least(const Expr& e) const { return std::max<int64_t>(1, evaluate(e, lowest_)); }

  // Returns what a producer's tasks notify if the consumer's coordinate `k` tells cells apart.
  CellMap map_by(uint32_t k, GridId producer, GridId consumer, const std::vector<Dependence>& needed) const {
    const TaskGrid &from_grid = program_.grids[producer], &to_grid = program_.grids[consumer];
    CellMap everything = notify_all(to_grid.coords[k].extent);
    if (uses_coord(to_grid.coords[k].extent)) return everything;
    std::optional<CellMap> found;
    for (const Dependence& d : needed) {
      if (d.producer != producer) continue;
      std::optional<CellMap> here;
      for (size_t dim = 0; dim < d.later->region.size() && !here; ++dim) {
        const Range &from = d.earlier->region[dim], &to = d.later->region[dim];
        const Expr& size = program_.tensors[d.later->tensor].shape[dim];
        const auto from_strips = strips_of(from, from_grid, size);
        const auto to_strips = strips_of(to, to_grid, size);
        if (from_strips && to_strips && to_strips->coord == k)
          here = notify_meeting(*from_strips, *to_strips);
        else
          here = notify_same(program_.symbols, from, from_grid, to, to_grid, k);
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

  // Returns the dependences on grids that write the lookup tables of this grid.
  std::vector<Dependence> looked_up(GridId g) const {
    std::vector<Dependence> found;
    for (const Access& a : program_.grids[g].reads)
      for (const Use& use : uses_[a.tensor.index])
        if (use.writes && looks_up(program_.grids[g].body, a.role))
          found.push_back({use.grid, use.access, &a});
    return found;
  }

  // Returns the event whose cells these coordinates of the consumer tell apart, and its gain. Returns nothing
  // where a coordinate gains nothing for any producer, or the tasks cannot be counted.
  std::optional<EventPlan> plan_by(const std::vector<uint32_t>& ks, GridId g,
                                   const std::vector<GridId>& producers,
                                   const std::vector<Dependence>& needed, double& gain_ns) const {
    const TaskGrid& grid = program_.grids[g];
    EventPlan plan;
    double cells = 1;
    std::string names;
    for (const uint32_t k : ks) {
      plan.dims.push_back(grid.coords[k].extent);
      plan.cell.push_back(coord(k));
      if (!uses_coord(plan.dims.back())) cells *= static_cast<double>(at_least(plan.dims.back()));
      names += (names.empty() ? "" : " and ") + grid.coords[k].name;
    }
    std::vector<bool> decided(ks.size(), false);
    double rounds = 0, cells_notified = 0;
    for (GridId p : producers) {
      std::vector<CellMap> maps;
      for (size_t d = 0; d < ks.size(); ++d) {
        maps.push_back(map_by(ks[d], p, g, needed));
        decided[d] = decided[d] || maps.back().by;
      }
      std::optional<NotifyMap> joined = join_maps(program_, p, maps);
      if (!joined) return std::nullopt;
      plan.maps.push_back(*std::move(joined));
      const auto tasks = std::max<int64_t>(1, TaskSpace(program_.grids[p], lowest_).count());
      const double share = static_cast<double>(tasks) / costs_.workers;
      rounds += share;
      cells_notified += std::max(1.0, share) * (plan.maps.back().cells_per_task - 1);
    }
    if (std::find(decided.begin(), decided.end(), false) != decided.end()) return std::nullopt;
    const double sooner_ns = std::max(1.0, rounds) * costs_.task_ns * (1 - 1 / cells);
    gain_ns = sooner_ns - cells_notified * costs_.notify_ns;
    plan.reason = "one cell: no coordinate tells apart what the producers write";
    if (ks.empty()) return plan;
    plan.reason = fmt::format(
        "a cell for each {}: tasks start about {:.0f} ns sooner, further notifications take {:.0f} ns", names,
        sooner_ns, cells_notified * costs_.notify_ns);
    return plan;
  }

  // Returns an event with a cell for each value of one coordinate, or of two, where tasks then start sooner
  // by more than it costs. Returns an event with one cell otherwise. Returns nothing where the producers'
  // tasks cannot be counted.
  std::optional<EventPlan> plan(GridId g, const std::vector<Dependence>& needed) const {
    const TaskGrid& grid = program_.grids[g];
    const std::vector<GridId> producers = producers_of(needed);
    double best_gain_ns = 0, gain_ns = 0;
    std::optional<EventPlan> best = plan_by({}, g, producers, needed, gain_ns);
    const auto offer = [&](const std::vector<uint32_t>& ks, const std::string& names) {
      std::optional<EventPlan> fine = plan_by(ks, g, producers, needed, gain_ns);
      if (!fine) return;
      if (!best || gain_ns > best_gain_ns)
        best = std::move(fine), best_gain_ns = gain_ns;
      else if (best->dims.empty())
        best->reason = fmt::format("one cell: a cell for each {} would gain {:.0f} ns", names, gain_ns);
    };
    for (uint32_t k = 0; k < grid.coords.size(); ++k) offer({k}, grid.coords[k].name);
    for (uint32_t a = 0; a < grid.coords.size(); ++a)
      for (uint32_t b = a + 1; b < grid.coords.size(); ++b)
        offer({a, b}, grid.coords[a].name + " and " + grid.coords[b].name);
    return best;
  }

  void add_event(GridId g, const EventPlan& plan, bool lookup) {
    uint32_t e = 0;
    while (e < plans_.size() && !(plans_[e].dims == plan.dims && plans_[e].maps == plan.maps)) ++e;
    program_.grids[g].waits.push_back({EventId{e}, plan.cell, lookup});
    if (e == plans_.size()) {
      Event event;
      event.name = program_.grids[g].name + "_ready";
      event.dims = plan.dims;
      event.loc = program_.grids[g].loc;
      for (const NotifyMap& map : plan.maps) {
        event.expect = event.expect + map.expect;
        program_.grids[map.grid].notifies.push_back({EventId{e}, map.cells});
      }
      program_.events.add(std::move(event));
      reasons_.push_back(plan.reason);
      plans_.push_back(plan);
    }
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

  bool at_least_one_task(GridId g) const { return never_empty(program_.grids[g], symbol_bounds_); }
};

}  // namespace

Result<TaskProgram> derive_events(TaskProgram program, const EventCosts& costs,
                                  std::vector<std::string>* reasons) {
  return Deriver(std::move(program), costs).run(reasons);
}

}  // namespace mkc
