// A task of a consumer grid depends on some tasks of each producer grid. This header is internal to events.
#pragma once

#include <optional>
#include <span>

#include "ir/values.h"

namespace mkc {

// Strips is an interval of one dim that moves with a coordinate: [step * c + start, step * c + start + size).
struct Strips {
  uint32_t coord = 0;
  int64_t step = 0, start = 0, size = 0;
  Expr extent;  // extent of the coordinate
  Expr dim;     // size of the tensor's dim; the interval is cut off at its end
  bool operator==(const Strips&) const = default;
};

// Returns the range as strips. Returns nothing unless the range moves with exactly one coordinate in constant
// steps.
std::optional<Strips> strips_of(const Range& range, const TaskGrid& grid, const Expr& dim);

// CellMap has the cells that a producer's tasks notify along one dim of an event. The cells are the values of
// a coordinate of the consumer.
struct CellMap {
  Range cells;  // cells that a task notifies, over the producer's coordinates
  // The producer's coordinate that decides which cells a task notifies. Without one, every task notifies all
  // cells.
  std::optional<uint32_t> by{};
  // The number of values of that coordinate that notify a cell. The cell is coordinate 0 of the expression.
  Expr values = 1;
  bool complete = true;  // every task notifies a cell, and every cell is notified
  double cells_per_task = 1;
  bool operator==(const CellMap&) const = default;
};

// Returns the map in which every task notifies each of `cells` cells.
CellMap notify_all(const Expr& cells);

// Returns the map in which a task notifies the cells whose strip overlaps its own.
CellMap notify_meeting(const Strips& from, const Strips& to);

// Returns the map in which a task notifies the one cell whose range equals its own. The ranges are intervals
// that a list of sums starts, so two of them never overlap. Returns nothing where the ranges are no such
// intervals.
std::optional<CellMap> notify_same(const Symbols& symbols, const Range& from, const TaskGrid& from_grid,
                                   const Range& to, const TaskGrid& to_grid, uint32_t to_coord);

// NotifyMap has the tasks of one grid that notify an event, and the number of notifications that each cell
// receives from them.
struct NotifyMap {
  GridId grid;
  Region cells;          // cells that a task notifies, over the grid's coordinates
  Expr expect;           // over the cell's coordinates and symbols
  bool partial = false;  // a task notifies only some of the cells
  bool complete = true;  // as in CellMap, for all dims
  double cells_per_task = 1;
  bool operator==(const NotifyMap&) const = default;
};

// Joins one map per dim. Returns nothing if the tasks of a cell cannot be counted. One coordinate then
// decides two dims, or no dim decides the row of a ragged coordinate.
std::optional<NotifyMap> join_maps(const TaskProgram& program, GridId grid, std::span<const CellMap> dims);

}  // namespace mkc
