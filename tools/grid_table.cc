#include "tools/grid_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scheduler/machine/cost.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

EventRow event_row(const SimulatedStep& step, EventId id) {
  const TaskProgram& program = step.compilation.schedule().program;
  const Event& event = program.events[id];
  std::vector<std::string> symbols, coords;
  for (const Symbol& symbol : program.symbols) symbols.push_back(symbol.name);
  for (size_t i = 0; i < event.dims.size(); ++i) coords.push_back(fmt::format("c{}", i));
  EventRow row{event.name, to_string(event.expect, symbols, coords),
               step.compilation.event_reasons[id.index]};
  for (const Expr& dim : event.dims) row.cells *= evaluate(dim, step.symbols);
  return row;
}

ordered_json events_json(const std::vector<EventRow>& rows) {
  ordered_json events = ordered_json::array();
  for (const EventRow& row : rows)
    events.push_back(
        {{"event", row.name}, {"cells", row.cells}, {"expects", row.expects}, {"reason", row.reason}});
  return events;
}

}  // namespace

std::vector<GridRow> grid_rows(const SimulatedStep& step) {
  const Schedule& schedule = step.compilation.schedule();
  std::vector<GridRow> rows;
  size_t task = 0;
  for (GridId id : schedule.program.grids.ids()) {
    const TaskGrid& grid = schedule.program.grids[id];
    GridRow row;
    row.name = grid.name;
    if (const auto at = step.compilation.unfused.find(grid.name); at != step.compilation.unfused.end())
      row.unfused = at->second;
    row.placement = &schedule.placements[id.index];
    row.tasks = task_count(grid, step.symbols);
    for (int64_t i = 0; i < row.tasks; ++i) row.bytes += step.simulation.tasks[task++].bytes;
    for (const Wait& wait : grid.waits) row.in.push_back(event_row(step, wait.event));
    for (const Notify& notify : grid.notifies) row.out.push_back(event_row(step, notify.event));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<GridRow> kind_rows(const std::vector<GridRow>& grids, const Kinds& kinds) {
  std::vector<GridRow> rows;
  for (GridId first : kinds.first) rows.push_back(grids[first.index]);
  for (GridRow& row : rows) row.grids = 0, row.tasks = 0, row.bytes = 0;
  for (size_t g = 0; g < grids.size(); ++g) {
    GridRow& row = rows[kinds.of_grid[g]];
    ++row.grids;
    row.tasks += grids[g].tasks;
    row.bytes += grids[g].bytes;
  }
  return rows;
}

ordered_json to_json(const GridRow& row) {
  ordered_json grid{{"grid", row.name},
                    {"placement", placement_name(row.placement->kind)},
                    {"reason", row.placement->reason},
                    {"tasks", row.tasks},
                    {"bytes", row.bytes},
                    {"in", events_json(row.in)},
                    {"out", events_json(row.out)}};
  if (!row.unfused.empty()) grid["not fused"] = row.unfused;
  return grid;
}

}  // namespace mkc
