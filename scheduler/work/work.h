// TaskWork says which bytes and times one task costs on a machine. docs/simulate.md describes the model.
#pragma once

#include "ir/step_symbols.h"
#include "runtime/abi/packing.h"
#include "scheduler/machine/machine.h"
#include "scheduler/place/step.h"

namespace mkc {

struct TaskWork {
  // Tiles of the task's strips, or of its keys and values. The tiles pass through the ring once for each
  // group of tokens. The first pass reads cold tiles from memory; further passes read from L2.
  uint32_t tiles = 0, passes = 0;
  bool cold = true;
  uint32_t strips = 1;                      // strips of the task, each with the same number of tiles
  uint32_t full_bytes = mkrt::kStageBytes;  // bytes of the other tiles of each strip
  uint32_t tail_bytes = 0;                  // bytes of the last tile of each strip
  double byte_ns = 0;                       // time of a worker to multiply a byte of a tile
  double l2_bytes = 0;  // bytes that all workers together read of L2 for a byte of each one's tiles

  uint64_t needed_bytes = 0;  // bytes of cold tiles without padding
  uint64_t cold_bytes = 0;    // bytes that the task itself reads from memory: embedding rows
  bool starts_once = false;   // start_ns is spent once per segment
  double issue_ns = 0;        // time of the loader for a tile that fills a stage
  double lookup_ns = 0;       // time once per segment, after its lookup
  double start_ns = 0;        // time of first operands, norms, and the path to the first product
  double busy_ns = 0;         // time after cold_bytes and before tiles
  double pass_ns = 0;         // time after each pass of tiles, at a block's last strip
  double end_ns = 0;          // time to the notification

  uint32_t tile_bytes(uint32_t tile) const {
    return (tile + 1) % (tiles / strips) == 0 ? tail_bytes : full_bytes;
  }
  uint64_t padding_bytes() const {
    if (tiles == 0 || !cold) return 0;
    return uint64_t{tiles - strips} * full_bytes + uint64_t{strips} * tail_bytes - needed_bytes;
  }
};

// Fused stages are ops that run in a grid's tasks in addition to its own op. The stages before are norms,
// rotation and the write to the cache. The stages after are gates and residuals.
struct FusedStages {
  int before = 0, after = 0;
};
// Returns the number of fused stages before and after the grid's own op.
FusedStages fused_stages(const TaskGrid& grid);

// TaskWorks has the costs of the tasks of a step.
class TaskWorks {
 public:
  TaskWorks(const Step& step, const Machine& machine);
  // `strips` is the size of the block in which the task of a product is multiplied.
  TaskWork of(uint32_t task, uint32_t strips = 1) const;
  double dispatch_ns() const { return dispatch_ns_; }  // time of a segment before its first poll
  // Returns the most strips of a product that a worker multiplies together from this task on. Returns 1 for
  // other grids.
  uint32_t block(GridId grid, uint32_t first) const;

 private:
  const Step& step_;
  const StepSymbols symbols_;
  const Machine& machine_;
  std::vector<uint32_t> blocks_;  // by GridId
  double dispatch_ns_;
};

}  // namespace mkc
