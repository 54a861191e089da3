// A table shows people the grids of a simulated step: tasks, placement, bytes and events of each.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "codegen/kinds.h"
#include "tools/simulated_step.h"

namespace mkc {

struct EventRow {
  std::string name, expects, reason;
  int64_t cells = 1;
};

struct GridRow {
  std::string name;
  std::string unfused;  // why it is a row grid; "" for other grids
  const Placement* placement = nullptr;
  uint32_t grids = 1;
  int64_t tasks = 0;
  uint64_t bytes = 0;  // bytes read from memory
  std::vector<EventRow> in, out;
};

// Returns a row for every grid, in program order. The rows point into the step.
std::vector<GridRow> grid_rows(const SimulatedStep& step);
// Returns a row for every kind of grid. The row has the name of the kind's first grid.
std::vector<GridRow> kind_rows(const std::vector<GridRow>& grids, const Kinds& kinds);

// Returns grid, placement, reason, tasks, bytes and events.
nlohmann::ordered_json to_json(const GridRow& row);

}  // namespace mkc
