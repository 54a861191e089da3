// Generated code runs a grid's tasks: a worker's choice of tasks, their coordinates, waits and notifications.
#pragma once

#include <optional>

#include "codegen/kinds.h"
#include "codegen/launch.h"
#include "codegen/mode.h"

namespace mkc {

// Share has the tasks [first, last) of one grid that this worker runs. Tasks are numbered row-major.
struct Share {
  llvm::Value *first, *last;
};

// TaskBlock has consecutive tasks that a body takes together. Products take blocks of tasks; other bodies
// take one task.
struct TaskBlock {
  llvm::Value *first, *count;
};

// TaskCode emits at the insertion point. Records are MkGrid. Requires the emitter's symbols.
//
// A grid stands for all kinds that share its code (codegen/kinds.h) in the megakernel. A grid stands for its
// own kind only in mode kKernels.
class TaskCode {
 public:
  TaskCode(Emitter& e, const Schedule& schedule, const Kinds& kinds, const StepLists& lists,
           const Engines& engines, const LaunchValues& launch, Mode mode)
      : e_(e), s_(schedule), kinds_(kinds), lists_(lists), engines_(engines), launch_(launch), mode_(mode) {}

  llvm::Value* record_of(llvm::Value* grid_index);  // for mode kKernels

  // Runs this worker's share of a grid's tasks on the consumer threads. `segment` is null in mode kKernels.
  void run_segment(GridId id, llvm::Value* record, llvm::Value* segment);

  // Tells whether the loader loads an operand of the grid's tasks through the ring.
  bool streams(GridId id) const;
  // loads_in_step() tells whether the choice of loaded bytes depends on the step. The loader must then wait
  // until the step has begun, when all counters have been cleared. loads_by_lists() tells whether the choice
  // also depends on the step's lists.
  bool loads_in_step(GridId id) const;
  bool loads_by_lists(GridId id) const;
  // Loads the streamed operand of this worker's share through the ring, on the loader warp. Loads do not wait
  // for the events of tasks; lookups do wait for theirs.
  void load_segment(GridId id, llvm::Value* record, llvm::Value* segment);

 private:
  // Tells whether a loader warp brings operands of the grid's tasks.
  bool loads(GridId id) const { return engines_.loader && streams(id); }
  // Tells whether the grid's streamed operand is a weight.
  bool reads_weights(GridId id) const {
    return s_.program.tensors[streamed(id)->tensor].kind == TensorKind::kWeight;
  }
  const TaskGrid& grid(GridId id) const { return s_.program.grids[id]; }
  llvm::Value* inline_record_of(llvm::Value* notifier);  // record of the inline grid that the notifier runs
  BodyCall body_call(GridId id, llvm::Value* record);
  llvm::Value* tokens_of(GridId id, llvm::Value* record);  // rows that a product makes
  llvm::Value* parts_of(GridId id, llvm::Value* record);   // parts that a product's columns are split into
  llvm::Value* strips_of(llvm::Value* record);             // strips of a product
  llvm::Value* task_strips_of(GridId id, llvm::Value* record);  // strips of a task of experts
  const Access* streamed(GridId id) const;                      // streamed operand; null where there is none
  PlacementKind placement(GridId id) const { return s_.placements[id.index].kind; }
  bool claims(GridId id) const { return mode_ == Mode::kMegakernel && claims_by_ticket(placement(id)); }
  const std::vector<GridId>& code_of(GridId id) const;  // kinds that share the grid's code
  // Emits code that depends on the kind: emit(grid) for each kind of shared code. The record's kind chooses
  // the one that runs. Returns the values of that one.
  std::vector<llvm::Value*> by_kind(GridId id, llvm::Value* record,
                                    const std::function<std::vector<llvm::Value*>(GridId)>& emit);
  Share share(GridId id, llvm::Value* record, llvm::Value* segment);
  // Visits the tasks that this worker runs, on the consumer threads. `first` is true for the first tasks of
  // the segment.
  void for_each_block(const BodyCall& call, llvm::Value* segment,
                      const std::function<void(const TaskBlock& tasks, llvm::Value* first)>& visit);
  // A worker without a loader takes all its tasks of an active expert together, whose weights follow each
  // other in memory. The expert's rows are then prepared once.
  bool takes_experts_whole(GridId id) const { return !engines_.loader && grid(id).body == BodyKind::kExpert; }
  void for_each_expert(GridId id, const Share& share,
                       const std::function<void(const TaskBlock& tasks, llvm::Value* first)>& visit);
  void for_each_task(const TaskBlock& tasks, const std::function<void(llvm::Value* task)>& visit);
  // Returns the next claimed task, on the consumer threads. The value is `tasks` or greater once none is
  // left.
  llvm::Value* next_task(GridId id, llvm::Value* record, llvm::Value* tasks);
  std::vector<llvm::Value*> coords_of(GridId id, llvm::Value* task);
  llvm::Value* tasks_of(const RaggedRows& ragged);  // tasks of all rows of a ragged grid
  llvm::Value* tasks_of(GridId id, llvm::Value* record);
  llvm::Value* tasks_within(GridId id, size_t coords);  // tasks that agree in the first `coords` coordinates
  // Returns the row-major number of a cell, for the event's dims at run time.
  llvm::Value* cell_number(const Event& event, const std::vector<llvm::Value*>& cell);
  // Waits for the grid's lookup, if it has one, and sets the routed symbols that the lookup finds. Mode
  // kKernels reads the tables without a wait.
  void look_up(GridId id, llvm::Value* record, const char* primitive);
  // Returns the counter that wait i of a grid polls, and the number that it waits for.
  std::pair<llvm::Value*, llvm::Value*> awaited(GridId id, llvm::Value* record, size_t i,
                                                const std::vector<llvm::Value*>& coords);
  // kOwn waits belong to one task. kShared waits are the same for all tasks of a segment, and only its first
  // tasks wait. Mode kKernels has no waits, only a barrier per block of tasks.
  enum class Waits { kOwn, kShared };
  // Coords gives the coordinates of a task of a grid.
  using Coords = std::function<std::vector<llvm::Value*>(GridId kind)>;
  void emit_waits(GridId id, llvm::Value* record, Waits waits, const Coords& coords);
  // `coords` are those of the first task.
  void wait_for(GridId id, llvm::Value* record, const TaskBlock& tasks,
                const std::vector<llvm::Value*>& coords, llvm::Value* first);
  llvm::Value* log_of(llvm::Value* event_base, EventId event);  // first counter of the event's log
  // Calls visit(run) for each run of consecutive cells in the last dim of the notified box. `cell` is the
  // first cell of the run.
  void for_each_run(const Notify& notify, const std::vector<llvm::Value*>& coords,
                    std::vector<llvm::Value*>& cell, const std::function<void(llvm::Value* run)>& visit);
  // Tells whether a notification only adds to its counters. A notification that runs an inline grid does
  // more. Mode kKernels has no counter-only notifications.
  bool notifies_by_counter(GridId id, size_t notify) const;
  // Emits the release fence before a task's notifications.
  void emit_release(GridId id);
  void emit_notifies(GridId id, const std::vector<llvm::Value*>& bases,
                     const std::vector<llvm::Value*>& coords);
  std::vector<llvm::Value*> notify_bases(GridId id, llvm::Value* record);
  std::optional<size_t> inlining_notify(GridId id) const;
  void notify_and_run(GridId id, llvm::Value* record, const std::vector<llvm::Value*>& bases,
                      const TaskBlock& tasks);
  // Returns the coordinates of the inline task whose cell is `cell`. Each coordinate equals one index of the
  // cell, or has extent 1 and is 0.
  std::vector<llvm::Value*> inline_coords(GridId id, const std::vector<llvm::Value*>& cell);
  // Runs `count` tasks of the inline grid `id`. Requires that this worker has just completed the cells of
  // these tasks, `cell` and the following ones.
  void run_inline(GridId id, llvm::Value* notifier, const std::vector<llvm::Value*>& cell,
                  llvm::Value* count);
  // Spoils the scratch memory that only the task's body uses, for the emulator to find late reads. Requires a
  // barrier after the task.
  void leave_scratch(GridId id);
  void begin_task(llvm::Value* record, llvm::Value* task);
  // Runs the body, the notifications, and the inline tasks that these complete. `coords` are those of the
  // first task.
  void run_task(const BodyCall& call, llvm::Value* arguments, const std::vector<llvm::Value*>& coords,
                const TaskBlock& tasks);
  // A Load emits code that loads the operands of `count` tasks from `first`.
  using Load = std::function<void(llvm::Value* first, llvm::Value* count)>;
  Load strips_loader(const BodyCall& call);
  Load experts_loader(const BodyCall& call);
  Load cache_loader(const BodyCall& call);
  Load loader(const BodyCall& call);
  mkrt::WeightType streamed_type(GridId id) const;  // of the streamed weight

  Emitter& e_;
  const Schedule& s_;
  const Kinds& kinds_;
  const StepLists& lists_;
  const Engines engines_;
  const LaunchValues& launch_;
  const Mode mode_;
};

}  // namespace mkc
