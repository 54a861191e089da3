// What one task asks of a machine, in bytes and times. Internal to simulate; the model: docs/simulate.md.
#pragma once

#include "runtime/packing.h"
#include "scheduler/machine.h"
#include "scheduler/step.h"

namespace mkc {

struct TaskWork {
  // Tiles of its strips, or of keys and values, which pass through the ring once for each group of tokens:
  // the first time from memory, if they are cold, and then from L2.
  uint32_t tiles = 0, passes = 0;
  bool cold = true;
  uint32_t strips = 1;      // as many tiles of each
  uint32_t tail_bytes = 0;  // of the last tile of each; others fill a stage
  // To multiply a byte of a tile, while the worker's stream flows and while it stands still.
  double flowing_ns = 0, still_ns = 0;

  uint64_t needed_bytes = 0;  // of cold tiles, padding left out
  uint64_t cold_bytes = 0;    // read from memory by the task itself: embedding rows
  bool starts_once = false;   // a segment
  double issue_ns = 0;        // of the loader, for a tile that fills a stage
  double lookup_ns = 0;       // once a segment, after its lookup
  double start_ns = 0;        // first operands, norms, and what leads to the first product
  double busy_ns = 0;         // after cold_bytes, before tiles
  double pass_ns = 0;         // after each pass of tiles, of a block's last strip
  double end_ns = 0;          // to the notification

  uint32_t tile_bytes(uint32_t tile) const {
    return (tile + 1) % (tiles / strips) == 0 ? tail_bytes : mkrt::kStageBytes;
  }
  uint64_t padding_bytes() const {
    if (tiles == 0 || !cold) return 0;
    return uint64_t{tiles - strips} * mkrt::kStageBytes + uint64_t{strips} * tail_bytes - needed_bytes;
  }
};

// Ops that go in a grid's tasks with its own, one after the other: norms, rotation and what is written to the
// cache before it; gates and residuals after it.
struct FusedStages {
  int before = 0, after = 0;
};
FusedStages fused_stages(const TaskGrid& grid);

// Works of the tasks of a step.
class TaskWorks {
 public:
  TaskWorks(const Step& step, const Machine& machine);
  // `strips`: of the block that the task of a product is multiplied in.
  TaskWork of(uint32_t task, uint32_t strips = 1) const;
  double dispatch_ns() const { return dispatch_ns_; }  // of a segment, before its first poll
  // How many strips of a product a worker multiplies together, at most, from this task on; 1 for other grids.
  uint32_t block(GridId grid, uint32_t first) const;

 private:
  TaskWork product(GridId grid, int64_t tokens, uint32_t strips) const;
  TaskWork strip(uint32_t task, uint32_t strips) const;
  TaskWork attend(uint32_t task) const;
  bool brings_context(const TaskGrid& attend, std::span<const int64_t> coords) const;
  TaskWork other(uint32_t task) const;
  double readers(GridId grid) const;
  double l2_rate(GridId grid) const;

  const Step& step_;
  const Machine& machine_;
  std::vector<uint32_t> blocks_;  // by GridId
  double dispatch_ns_;
};

}  // namespace mkc
