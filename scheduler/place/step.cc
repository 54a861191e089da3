#include "scheduler/place/step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace mkc {
namespace {

std::vector<int64_t> event_dims(const Event& event, std::span<const int64_t> symbols) {
  std::vector<int64_t> dims;
  for (const Expr& dim : event.dims) dims.push_back(std::max<int64_t>(0, evaluate(dim, symbols)));
  return dims;
}

std::vector<int64_t> unflatten(uint64_t index, const std::vector<int64_t>& dims) {
  std::vector<int64_t> at(dims.size());
  for (size_t d = dims.size(); d-- > 0; index /= static_cast<uint64_t>(dims[d]))
    at[d] = static_cast<int64_t>(index % static_cast<uint64_t>(dims[d]));
  return at;
}

// A step of more tasks or cells is not expanded, as its tables would take tens of GB.
constexpr uint64_t kMaxExpanded = uint64_t{1} << 27;

// Stores where the tasks or cells of each of these begin, with their number at the end. Errors: too many.
Status sum_counts(const Step& step, const char* what, const std::vector<uint64_t>& counts,
                  std::vector<uint32_t>& begin) {
  uint64_t sum = 0;
  begin = {0};
  for (const uint64_t count : counts) {
    sum += count;
    if (sum > kMaxExpanded)
      return step_error(step, {Part::kHeader},
                        fmt::format("the step has more than {} {}, and is not expanded", kMaxExpanded, what));
    begin.push_back(static_cast<uint32_t>(sum));
  }
  return {};
}

// Errors: the step has too many tasks or cells.
Status number_tasks_and_cells(Step& step) {
  const TaskProgram& program = step.schedule->program;
  std::vector<uint64_t> tasks, cells;
  for (GridId g : program.grids.ids())
    tasks.push_back(static_cast<uint64_t>(step.spaces.emplace_back(program.grids[g], step.symbols).count()));
  for (const Event& event : program.events) {
    cells.push_back(1);
    for (int64_t dim : event_dims(event, step.symbols)) cells.back() *= static_cast<uint64_t>(dim);
  }
  if (Status s = sum_counts(step, "tasks", tasks, step.task_base); !s.ok()) return s;
  if (Status s = sum_counts(step, "cells", cells, step.cell_base); !s.ok()) return s;
  for (GridId g : program.grids.ids()) step.grid_of.insert(step.grid_of.end(), tasks[g.index], g);
  return {};
}

// Checks rule 1: the streams hold every task once.
Status lay_out_runs(Step& step) {
  const Schedule& s = *step.schedule;
  std::vector<uint8_t> seen(step.grid_of.size(), 0);
  for (uint32_t w = 0; w < s.workers; ++w) {
    for (const Segment& segment : s.streams[w]) {
      const uint32_t base = step.task_base[segment.grid.index];
      const uint64_t tasks = step.task_base[segment.grid.index + 1] - base;
      const PlacementKind kind = s.placements[segment.grid.index].kind;
      Run run{w, segment.grid, segment.first, segment.count, claims_by_ticket(kind)};
      if (run.claimed) {
        run.count = static_cast<uint32_t>(tasks);
        if (tasks != 0) step.runs.push_back(run);
        continue;
      }
      if (kind == PlacementKind::kRange) {
        const uint64_t share = range_share(s, segment.grid, w);
        run.first = static_cast<uint32_t>(tasks * share / s.workers);
        run.count = static_cast<uint32_t>(tasks * (share + 1) / s.workers) - run.first;
      }
      if (uint64_t{run.first} + run.count > tasks)
        return step_error(
            step, {Part::kWorker, w},
            fmt::format("worker {} runs tasks {} to {} of %{}, which has {}", w, run.first,
                        uint64_t{run.first} + run.count - 1, s.program.grids[segment.grid].name, tasks));
      for (uint32_t t = run.first; t < run.first + run.count; ++t)
        if (seen[base + t]++)
          return step_error(
              step, {Part::kWorker, w},
              fmt::format("{} is in the streams twice, again on worker {}", task_name(step, base + t), w));
      if (run.count != 0) step.runs.push_back(run);
    }
  }
  for (uint32_t t = 0; t < seen.size(); ++t) {
    const PlacementKind kind = s.placements[step.grid_of[t].index].kind;
    if (kind == PlacementKind::kInline) step.inline_tasks.push_back(t);
    if (!seen[t] && kind != PlacementKind::kInline && !claims_by_ticket(kind))
      return step_error(step, subject_of(step.grid_of[t]),
                        fmt::format("no stream runs {}", task_name(step, t)));
  }
  for (GridId g : s.program.grids.ids())
    if (claims_by_ticket(s.placements[g.index].kind) && step.spaces[g.index].count() > 0)
      step.claimed_grids.push_back(g);
  return {};
}

// Returns the flat cell index of `at`, or an error for cells outside the event.
Result<uint32_t> cell_index(const Step& step, uint32_t task, const char* verb, EventId event,
                            const std::vector<int64_t>& dims, const std::vector<int64_t>& at) {
  uint64_t index = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (at[d] < 0 || at[d] >= dims[d])
      return step_error(
          step, subject_of(step.grid_of[task]),
          fmt::format("{} {} @{}[{}], outside its cells [{}]", task_name(step, task), verb,
                      step.schedule->program.events[event].name, fmt::join(at, ", "), fmt::join(dims, ", ")));
    index = index * static_cast<uint64_t>(dims[d]) + static_cast<uint64_t>(at[d]);
  }
  return step.cell_base[event.index] + static_cast<uint32_t>(index);
}

Status collect_waits(Step& step, uint32_t task, std::span<const int64_t> coords,
                     const std::vector<std::vector<int64_t>>& dims) {
  std::vector<int64_t> at;
  for (const Wait& wait : step.schedule->program.grids[step.grid_of[task]].waits) {
    at.clear();
    for (const Expr& e : wait.cell) at.push_back(evaluate(e, step.symbols, coords));
    Result<uint32_t> cell = cell_index(step, task, "waits for", wait.event, dims[wait.event.index], at);
    if (!cell.ok()) return cell.error();
    step.waits.cells.push_back(cell.value());
  }
  step.waits.begin.push_back(static_cast<uint32_t>(step.waits.cells.size()));
  return {};
}

Status collect_notifies(Step& step, uint32_t task, std::span<const int64_t> coords,
                        const std::vector<std::vector<int64_t>>& dims) {
  std::vector<int64_t> lo, size, at;
  for (const Notify& notify : step.schedule->program.grids[step.grid_of[task]].notifies) {
    lo.clear(), size.clear();
    int64_t cells = 1;
    for (const Range& range : notify.cells) {
      lo.push_back(evaluate(range.offset, step.symbols, coords));
      size.push_back(std::max<int64_t>(0, evaluate(range.size, step.symbols, coords)));
      cells *= size.back();
    }
    for (int64_t i = 0; i < cells; ++i) {
      at = unflatten(static_cast<uint64_t>(i), size);
      for (size_t d = 0; d < at.size(); ++d) at[d] += lo[d];
      Result<uint32_t> cell = cell_index(step, task, "notifies", notify.event, dims[notify.event.index], at);
      if (!cell.ok()) return cell.error();
      step.notifies.cells.push_back(cell.value());
    }
  }
  step.notifies.begin.push_back(static_cast<uint32_t>(step.notifies.cells.size()));
  return {};
}

// Checks rule 4: each cell gets as many notifications as it expects.
Status check_counts(const Step& step) {
  const TaskProgram& program = step.schedule->program;
  std::vector<uint32_t> found(step.cell_base.back(), 0);
  for (uint32_t cell : step.notifies.cells) ++found[cell];
  for (EventId e : program.events.ids()) {
    const std::vector<int64_t> dims = event_dims(program.events[e], step.symbols);
    for (uint32_t cell = step.cell_base[e.index]; cell < step.cell_base[e.index + 1]; ++cell) {
      const std::vector<int64_t> at = unflatten(cell - step.cell_base[e.index], dims);
      const int64_t expected = evaluate(program.events[e].expect, step.symbols, at);
      if (expected != found[cell])
        return step_error(step, subject_of(e),
                          fmt::format("{} expects {} notifications, {} tasks notify it",
                                      cell_name(step, cell), expected, found[cell]));
    }
  }
  for (uint32_t task : step.inline_tasks) {
    const uint32_t cell = step.waits.cells[step.waits.begin[task]];
    if (found[cell] == 0)
      return step_error(step, subject_of(step.grid_of[task]),
                        fmt::format("{} runs inline, but nobody completes {}", task_name(step, task),
                                    cell_name(step, cell)));
  }
  for (GridId g : step.claimed_grids) {
    if (step.schedule->placements[g.index].kind != PlacementKind::kReady) continue;
    for (uint32_t task = step.task_base[g.index]; task < step.task_base[g.index + 1]; ++task)
      if (const uint32_t cell = step.waits.cells[step.waits.begin[task]]; found[cell] == 0)
        return step_error(step, subject_of(g),
                          fmt::format("{} is claimed once it is ready, but nobody completes {}",
                                      task_name(step, task), cell_name(step, cell)));
  }
  return {};
}

}  // namespace

Result<Step> expand_step(const Schedule& schedule, std::vector<int64_t> symbols, const Places* places) {
  Step step;
  step.schedule = &schedule;
  step.places = places;
  step.symbols = std::move(symbols);
  if (Status s = number_tasks_and_cells(step); !s.ok()) return s.error();
  if (Status s = lay_out_runs(step); !s.ok()) return s.error();

  std::vector<std::vector<int64_t>> dims;
  for (const Event& event : schedule.program.events) dims.push_back(event_dims(event, step.symbols));
  std::vector<int64_t> coords;
  step.waits.begin = step.notifies.begin = {0};
  for (uint32_t task = 0; task < step.grid_of.size(); ++task) {
    task_coords(step, task, coords);
    if (Status s = collect_waits(step, task, coords, dims); !s.ok()) return s.error();
    if (Status s = collect_notifies(step, task, coords, dims); !s.ok()) return s.error();
  }
  if (Status s = check_counts(step); !s.ok()) return s.error();
  return step;
}

void task_coords(const Step& step, uint32_t task, std::vector<int64_t>& coords) {
  const GridId g = step.grid_of[task];
  step.spaces[g.index].coords_of(task - step.task_base[g.index], coords);
}

std::string task_name(const Step& step, uint32_t task) {
  std::vector<int64_t> coords;
  task_coords(step, task, coords);
  return fmt::format("%{}[{}]", step.schedule->program.grids[step.grid_of[task]].name,
                     fmt::join(coords, ", "));
}

std::string cell_name(const Step& step, uint32_t cell) {
  const auto after = std::upper_bound(step.cell_base.begin(), step.cell_base.end(), cell);
  const EventId event{static_cast<uint32_t>(after - step.cell_base.begin()) - 1};
  const Event& e = step.schedule->program.events[event];
  return fmt::format(
      "@{}[{}]", e.name,
      fmt::join(unflatten(cell - step.cell_base[event.index], event_dims(e, step.symbols)), ", "));
}

Error step_error(const Step& step, Subject subject, const std::string& message) {
  const std::string values = values_text(step.schedule->program.symbols, step.symbols);
  return error_about(subject, message + (values.empty() ? "" : fmt::format(" (at {})", values)), step.places);
}

}  // namespace mkc
