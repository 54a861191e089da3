// Which tasks of a producer grid a task of a consumer grid depends on. Internal to events.
#pragma once

#include <optional>
#include <span>

#include "ir/values.h"

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

// Which cells a producer's tasks notify along one dim of an event, whose cells are the values of a coordinate
// of the consumer.
struct CellMap {
  Range cells;                   // notified by a task, over the producer's coordinates
  std::optional<uint32_t> by{};  // the producer's coordinate that decides; none: every task notifies all
  Expr values = 1;       // how many values of that coordinate notify a cell, over the cell: coordinate 0
  bool complete = true;  // every task notifies a cell, and every cell is notified
  double cells_per_task = 1;
  bool operator==(const CellMap&) const = default;
};

// Every task notifies each of `cells` cells.
CellMap notify_all(const Expr& cells);

// A task notifies the cells whose strip meets its own.
CellMap notify_meeting(const Strips& from, const Strips& to);

// A task notifies the one cell whose range is the same as its own, where the ranges of a coordinate's values
// are spans of a list that a list of sums begins, and so never meet. Nothing where they are no such ranges.
std::optional<CellMap> notify_same(const Symbols& symbols, const Range& from, const TaskGrid& from_grid,
                                   const Range& to, const TaskGrid& to_grid, uint32_t to_coord);

// The tasks of one grid that notify an event, and how many of them each cell gets.
struct NotifyMap {
  GridId grid;
  Region cells;          // notified by a task, over the grid's coordinates
  Expr expect;           // over the cell's coordinates and symbols
  bool partial = false;  // a task notifies some of the cells only
  bool complete = true;  // as in CellMap, of all dims
  double cells_per_task = 1;
  bool operator==(const NotifyMap&) const = default;
};

// Of one map for each dim. Nothing where the tasks of a cell cannot be counted: two dims decided by one
// coordinate, or a ragged one whose row no dim decides.
std::optional<NotifyMap> join_maps(const TaskProgram& program, GridId grid, std::span<const CellMap> dims);

}  // namespace mkc
