#include "scheduler/proof/placements.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/bodies.h"
#include "runtime/abi/abi.h"

namespace mkc::proof {
namespace {

std::string grid_name_of(const Context& c, GridId g) {
  return "%" + c.p.grids[g].name;
}

// Checks that the streams hold each task of a table grid once.
Status check_table(const Context& c, GridId g, const std::vector<Segment>& segments) {
  const TaskGrid& grid = c.p.grids[g];
  int64_t tasks = 1;
  for (uint32_t i = 0; i < grid.coords.size(); ++i) {
    const std::optional<int64_t> extent = constant_extent(grid, i);
    if (!extent)
      return c.wrong(subject_of(g), fmt::format("{} is placed by table, but its extent depends on symbols",
                                                grid_name_of(c, g)));
    tasks *= *extent;
  }
  std::vector<uint8_t> seen(static_cast<size_t>(tasks), 0);
  for (const Segment& segment : segments) {
    if (int64_t{segment.first} + segment.count > tasks)
      return c.wrong(subject_of(g),
                     fmt::format("a stream runs tasks {} to {} of {}, which has {}", segment.first,
                                 int64_t{segment.first} + segment.count - 1, grid_name_of(c, g), tasks));
    for (uint32_t t = segment.first; t < segment.first + segment.count; ++t)
      if (seen[t]++)
        return c.wrong(subject_of(g),
                       fmt::format("task {} of {} is in the streams twice", t, grid_name_of(c, g)));
  }
  const auto missing = std::find(seen.begin(), seen.end(), 0);
  if (missing != seen.end())
    return c.wrong(subject_of(g),
                   fmt::format("no stream runs task {} of {}", missing - seen.begin(), grid_name_of(c, g)));
  return {};
}

// Segments has the segments of each grid, and the workers that have them.
struct Segments {
  std::vector<std::vector<Segment>> of_grid;
  std::vector<std::vector<uint32_t>> workers;  // by grid: the workers of its segments
};

Status check_once_a_worker(const Context& c, GridId g, const std::vector<uint32_t>& workers) {
  std::vector<uint32_t> count(c.s.workers, 0);
  for (const uint32_t w : workers) ++count[w];
  for (uint32_t w = 0; w < c.s.workers; ++w)
    if (count[w] != 1)
      return c.wrong(
          {Part::kWorker, w},
          fmt::format("{} is placed by {}, but the stream of worker {} has {} segments of it, "
                      "expected 1",
                      grid_name_of(c, g), placement_name(c.s.placements[g.index].kind), w, count[w]));
  return {};
}

}  // namespace

Status check_streams(const Context& c) {
  const Schedule& s = c.s;
  if (s.workers == 0 || s.streams.size() != s.workers)
    return c.wrong({Part::kMachine}, fmt::format("{} workers have {} streams", s.workers, s.streams.size()));
  if (s.placements.size() != c.p.grids.size())
    return c.wrong({Part::kHeader},
                   fmt::format("{} grids have {} placements", c.p.grids.size(), s.placements.size()));
  Segments segments;
  segments.of_grid.resize(c.p.grids.size());
  segments.workers.resize(c.p.grids.size());
  for (uint32_t w = 0; w < s.workers; ++w)
    for (const Segment& segment : s.streams[w]) {
      if (!c.p.grids.contains(segment.grid))
        return c.wrong(
            {Part::kWorker, w},
            fmt::format("worker {} has a segment of grid {}, which does not exist", w, segment.grid.index));
      segments.of_grid[segment.grid.index].push_back(segment);
      segments.workers[segment.grid.index].push_back(w);
    }
  for (GridId g : c.p.grids.ids()) {
    Status status;
    switch (s.placements[g.index].kind) {
      case PlacementKind::kTable:
        status = check_table(c, g, segments.of_grid[g.index]);
        break;
      case PlacementKind::kReady:
        if (const std::string reason = why_not_ready(c.p, g); !reason.empty())
          return c.wrong(subject_of(g),
                         fmt::format("{} is placed by ready, but {}", grid_name_of(c, g), reason));
        [[fallthrough]];
      case PlacementKind::kRange:
      case PlacementKind::kQueue:
        status = check_once_a_worker(c, g, segments.workers[g.index]);
        break;
      case PlacementKind::kInline:
        if (!segments.of_grid[g.index].empty())
          return c.wrong({Part::kWorker, segments.workers[g.index][0]},
                         fmt::format("{} runs inline, but is in the stream of worker {}", grid_name_of(c, g),
                                     segments.workers[g.index][0]));
        break;
    }
    if (!status.ok()) return status;
  }
  return {};
}

namespace {

// Tells whether the awaited cells are the grid's coordinates in their order, each once. Coordinates of one
// value may be left out.
bool cells_are_tasks(Context& c, GridId g, const Wait& wait) {
  const TaskGrid& grid = c.p.grids[g];
  const Event& event = c.p.events[wait.event];
  size_t dim = 0;
  for (uint32_t i = 0; i < grid.coords.size(); ++i) {
    const bool named = dim < event.dims.size() && wait.cell[dim] == coord(i);
    if (!named && constant_extent(grid, i) != std::optional<int64_t>(1)) return false;
    if (named && !c.forms.equal(event.dims[dim++], grid.coords[i].extent)) return false;
  }
  return dim == event.dims.size();
}

// Tells whether every cell is completed by some task.
bool all_completed(const Context& c, const Sources& sources, EventId e) {
  return !sources[e.index].empty() && lower_bound(c.p.events[e].expect, c.cells[e.index]) >= 1;
}

// Waiters has the grids that wait for each event, by EventId.
using Waiters = std::vector<std::vector<GridId>>;

Waiters waiters_of(const Context& c) {
  Waiters waiters(c.p.events.size());
  for (GridId g : c.p.grids.ids())
    for (const Wait& wait : c.p.grids[g].waits) waiters[wait.event.index].push_back(g);
  return waiters;
}

Status check_inline(Context& c, const Sources& sources, const Waiters& waiters, GridId g) {
  const TaskGrid& grid = c.p.grids[g];
  if (grid.waits.size() != 1)
    return c.wrong(subject_of(g), fmt::format("%{} runs inline, but has {} waits, expected 1", grid.name,
                                              grid.waits.size()));
  const Wait& wait = grid.waits[0];
  const std::string event = "@" + c.p.events[wait.event].name;
  if (keeps_log(c.s, wait.event))
    return c.wrong(subject_of(g), fmt::format("%{} runs inline, but {} keeps a log for a grid that is ready",
                                              grid.name, event));
  if (wait.lookup || !cells_are_tasks(c, g, wait))
    return c.unproved(subject_of(g),
                      fmt::format("%{} runs inline: the cells of {} are not its tasks", grid.name, event));
  if (!all_completed(c, sources, wait.event))
    return c.unproved(subject_of(g),
                      fmt::format("%{} runs inline: somebody completes every cell of {}", grid.name, event));
  for (const Source& source : sources[wait.event.index]) {
    if (c.s.placements[source.grid.index].kind == PlacementKind::kInline)
      return c.unproved(subject_of(g), fmt::format("%{} runs inline behind %{}, which runs inline itself",
                                                   grid.name, c.p.grids[source.grid].name));
    uint32_t inlining = 0;
    for (const Notify& notify : c.p.grids[source.grid].notifies)
      for (const GridId other : waiters[notify.event.index])
        inlining += c.s.placements[other.index].kind == PlacementKind::kInline ? 1 : 0;
    if (inlining != 1)
      return c.wrong(subject_of(source.grid), fmt::format("{} grids run inline behind %{}, expected 1",
                                                          inlining, c.p.grids[source.grid].name));
  }
  for (const GridId other : waiters[wait.event.index])
    if (other != g)
      return c.wrong(subject_of(other), fmt::format("%{} runs inline, but %{} waits for {}, too", grid.name,
                                                    c.p.grids[other].name, event));
  return {};
}

}  // namespace

Status check_starts(Context& c, const Sources& sources) {
  const Waiters waiters = waiters_of(c);
  for (GridId g : c.p.grids.ids()) {
    const TaskGrid& grid = c.p.grids[g];
    if (grid.waits.size() > mkrt::kMaxWaits)
      return c.wrong(subject_of(g), fmt::format("%{} has {} waits, at most {} are possible", grid.name,
                                                grid.waits.size(), mkrt::kMaxWaits));
    if (grid.notifies.size() > mkrt::kMaxNotifies)
      return c.wrong(subject_of(g), fmt::format("%{} notifies {} events, at most {} are possible", grid.name,
                                                grid.notifies.size(), mkrt::kMaxNotifies));
    const PlacementKind kind = c.s.placements[g.index].kind;
    if (kind == PlacementKind::kInline)
      if (Status status = check_inline(c, sources, waiters, g); !status.ok()) return status;
    if (kind == PlacementKind::kReady && !all_completed(c, sources, grid.waits[0].event))
      return c.unproved(subject_of(g),
                        fmt::format("%{} is claimed once it is ready: somebody completes every cell of @{}",
                                    grid.name, c.p.events[grid.waits[0].event].name));
  }
  return {};
}

Status check_lookups(Context& c, const Sources& sources) {
  for (GridId g : c.p.grids.ids()) {
    const TaskGrid& grid = c.p.grids[g];
    const auto awaits_all_of = [&](GridId writer) {
      return std::any_of(grid.waits.begin(), grid.waits.end(), [&](const Wait& wait) {
        return wait.lookup && std::any_of(sources[wait.event.index].begin(), sources[wait.event.index].end(),
                                          [&](const Source& s) { return s.grid == writer && s.every_cell; });
      });
    };
    for (const Access& read : grid.reads) {
      if (!looks_up(grid.body, read.role)) continue;
      for (GridId writer : c.p.grids.ids())
        for (const Access& write : c.p.grids[writer].writes)
          if (write.tensor == read.tensor && !awaits_all_of(writer))
            return c.wrong(subject_of(g),
                           fmt::format("%{} looks up %{} without a lookup after %{}", grid.name,
                                       c.p.tensors[read.tensor].name, c.p.grids[writer].name));
      ++c.report.lemmas;
    }
  }
  return {};
}

}  // namespace mkc::proof
