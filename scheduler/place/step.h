// Step is a schedule at given symbol values, with every task and every counter.
#pragma once

#include <string>

#include "ir/parse.h"
#include "ir/values.h"

namespace mkc {

// Run has consecutive tasks of one grid on one worker. A claimed run holds all tasks of a grid, of which any
// worker may run any. Each worker then has such a run.
struct Run {
  uint32_t worker = 0;
  GridId grid;
  uint32_t first = 0;
  uint32_t count = 0;
  bool claimed = false;
};

// TaskCells has lists of cells for each task. The cells of task t are cells[begin[t]] .. cells[begin[t + 1] -
// 1].
struct TaskCells {
  std::vector<uint32_t> begin;
  std::vector<uint32_t> cells;
};

struct Step {
  const Schedule* schedule = nullptr;
  const Places* places = nullptr;   // of the schedule's text
  std::vector<int64_t> symbols;     // by SymbolId
  std::vector<uint32_t> task_base;  // by GridId, with the number of tasks at the end
  std::vector<uint32_t> cell_base;  // by EventId, with the number of cells at the end
  std::vector<TaskSpace> spaces;    // by GridId
  std::vector<GridId> grid_of;      // by task
  std::vector<Run> runs;            // by worker, in stream order
  std::vector<uint32_t> inline_tasks;
  std::vector<GridId> claimed_grids;  // claimed grids that have tasks
  TaskCells waits, notifies;
};

// Expands the schedule and checks rules 1 and 4 of prove.h.
Result<Step> expand_step(const Schedule& schedule, std::vector<int64_t> symbols,
                         const Places* places = nullptr);

// Returns the coordinates of a task in `coords`.
void task_coords(const Step& step, uint32_t task, std::vector<int64_t>& coords);
std::string task_name(const Step& step, uint32_t task);  // "%o[3]"
std::string cell_name(const Step& step, uint32_t cell);  // "@o_done[2]"
// Returns an error with the symbol values.
Error step_error(const Step& step, Subject subject, const std::string& message);

}  // namespace mkc
