// Each task body has one row here: what its tasks cost. A further body is one more file of this folder and a
// line in table.cc. This header is internal to scheduler/work.
#pragma once

#include <span>

#include "scheduler/work/work.h"

namespace mkc {

// TaskOn is one task on a machine.
struct TaskOn {
  TaskOn(const Step& task_step, const StepSymbols& step_symbols, const Machine& machine, uint32_t number);

  const Step& step;
  const StepSymbols& symbols;
  const Machine& m;
  uint32_t task;
  GridId id;
  const TaskProgram& program;
  const TaskGrid& grid;
  std::vector<int64_t> coords;

  const Tensor& tensor(const Access& access) const { return program.tensors[access.tensor]; }
  int64_t value(const Expr& e) const { return evaluate(e, step.symbols, coords); }
  int64_t elements(const Region& region) const;

  // Returns the bytes of the activations that the task reads.
  double activation_bytes() const;
  // Returns the number of workers that run tasks of the grid at the same time.
  double readers() const;
  // Returns the rate of one worker's plain loads that do not keep pace with the stream. The stream leaves
  // them the rest of L2's ceiling.
  double l2_rate() const;
};

struct BodyWork {
  // Returns the cost of a task. `strips` is the size of the block in which a product's task is multiplied.
  TaskWork (*work)(const TaskOn& task, uint32_t strips);
  // Returns the elements that a task reads of an operand. Null: those of the operand's region.
  int64_t (*elements_read)(const TaskOn& task, const Access& read) = nullptr;
  // Returns the number of fused stages before the grid's own op. Null: one for a norm, else none.
  int (*stages_before)(const TaskGrid& grid) = nullptr;
};
const BodyWork& work_of(BodyKind kind);

extern const BodyWork kEmbedWork, kProductWork, kAppendWork, kAttendWork, kExpertWork, kExpertSumWork,
    kPlainWork;

// Sets the tiles of a strip, of which a part of a split product has a share.
void set_tiles(TaskWork& work, const mkrt::PackedShape& shape, uint32_t parts, uint32_t strips);

// Returns fused_stages().before of append and attend: a norm of keys, a rotation and the write to the cache.
int attention_stages(const TaskGrid& grid);

// Returns the cost of a task that loads activations and computes at once.
TaskWork plain_work(const TaskOn& task, uint32_t strips);

// Returns the rows that a product makes, or the rows of the expert that a task belongs to. The coordinates
// may be left out where the rows do not depend on them.
int64_t rows_of_task(const Step& step, const TaskGrid& grid, std::span<const int64_t> coords = {});

}  // namespace mkc
