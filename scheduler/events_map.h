// Which tasks of a producer grid a task of a consumer grid depends on. Internal to events.
#pragma once

#include <optional>

#include "ir/tasks.h"

namespace mkc {

// An interval of one dim that moves with a coordinate: [step * c + start, step * c + start + size).
struct Strips {
  uint32_t coord = 0;
  int64_t step = 0, start = 0, size = 0;
  Expr extent;  // of the coordinate
  Expr dim;     // size of the tensor's dim; what reaches beyond it is cut off
  bool operator==(const Strips&) const = default;
};

// The range as strips; nothing where it does not move with exactly one coordinate in constant steps.
std::optional<Strips> strips_of(const Range& range, const TaskGrid& grid, const Expr& dim);

// The tasks of one grid that notify, and how many of them each cell gets.
struct NotifyMap {
  GridId grid;
  Range cells;           // notified by a task, over the grid's coordinates
  Expr expect;           // over the cell's coordinate 0 and symbols
  bool partial = false;  // a task notifies some of the cells only
  bool complete = true;  // every task notifies a cell, and every cell is notified
  double cells_per_task = 1;
  bool operator==(const NotifyMap&) const = default;
};

// Number of tasks of a grid.
Expr tasks_of(const TaskGrid& grid);

// Every task notifies each of `cells` cells.
NotifyMap notify_all(const TaskProgram& program, GridId grid, const Expr& cells);

// A cell for each value of the consumer's coordinate: a task notifies those whose strip meets its own.
NotifyMap notify_meeting(const TaskProgram& program, GridId grid, const Strips& from, const Strips& to);

}  // namespace mkc
