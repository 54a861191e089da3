// Footprints say what each task body really touches. They are written from docs/ir.md and codegen/device/
// alone. They follow from tensors, attributes and coordinates, not from the regions that a grid declares.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "ir/schedule.h"
#include "tests/attack/schedules/step.h"

namespace mkc::attack {

constexpr size_t kDims = 4;

struct Box {
  size_t rank = 0;
  std::array<int64_t, kDims> lo{}, hi{};  // bounds, half open
  bool operator==(const Box&) const = default;
  bool empty() const;
  bool contains(const Box& other) const;
};

// A toucher is who touches, and when.
enum class Toucher : uint8_t {
  kTask,    // the consumers, while the task runs
  kStream,  // the loader, ahead of all events
  kLookup,  // the consumers of each worker, when they look up their tasks
  kTable    // the loader of each worker, at any time after its lookup
};

struct Touch {
  const Access* access = nullptr;  // the operand that the body takes by its role
  bool writes = false;
  Toucher by = Toucher::kTask;
  Box box;
};

// Adds what the task touches to `out`. Throws a Finding where the task leaves a tensor, a list or the active
// experts, or where an operand is missing.
void touches_of_task(const Schedule& s, const Step& step, GridId grid, std::span<const int64_t> coords,
                     std::vector<Touch>& out);

// Adds what every worker touches when it looks up the grid's tasks, whether it has some or not.
void touches_of_lookup(const Schedule& s, const Step& step, GridId grid, std::vector<Touch>& out);

// Returns how many positions a partial of the grid's attention has.
int64_t part_positions_of(const Schedule& s, const Step& step, const TaskGrid& grid);

// RowBlock is the row block of an append, attend or combine task.
struct RowBlock {
  int64_t request, first_row, rows, kv_len;
  int64_t context, step_rows;  // context and rows of the request
  int64_t fresh() const { return kv_len - rows; }
  int64_t earlier() const { return context - step_rows; }
  bool last_of_request() const { return kv_len == context; }
  // Returns the first position that the row at `position` sees.
  static int64_t first_seen(int64_t position, int64_t window) {
    return window != 0 && position + 1 > window ? position + 1 - window : 0;
  }
  int64_t first_kv_tile(int64_t window) const { return first_seen(fresh(), window) / kKvTilePositions; }
};
RowBlock row_block(const Schedule& s, const Step& step, int64_t k);

}  // namespace mkc::attack
