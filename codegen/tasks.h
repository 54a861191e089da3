// The code of a grid's tasks: which of them a worker runs, their coordinates, waits and notifications.
#pragma once

#include <optional>

#include "codegen/kinds.h"
#include "codegen/launch.h"
#include "codegen/mode.h"

namespace mkc {

// The tasks [first, last) of one grid that this worker runs; coordinates are row-major.
struct Share {
  llvm::Value *first, *last;
};

// Consecutive tasks that a body takes together: of products in blocks, others one by one.
struct TaskBlock {
  llvm::Value *first, *count;
};

// Emits at the insertion point; records are MkGrid. Requires the emitter's symbols. In the one kernel a grid
// stands for all kinds that share its code (codegen/kinds.h), between kernels for its own.
class TaskCode {
 public:
  TaskCode(Emitter& e, const Schedule& schedule, const Kinds& kinds, const StepLists& lists,
           const Engines& engines, const LaunchValues& launch, Mode mode)
      : e_(e), s_(schedule), kinds_(kinds), lists_(lists), engines_(engines), launch_(launch), mode_(mode) {}

  llvm::Value* record_of(llvm::Value* grid_index);  // of kernels of grids

  // Consumer threads: runs this worker's share of a grid's tasks. Kernels of one grid have no segments.
  void run_segment(GridId id, llvm::Value* record, llvm::Value* segment);

  // Whether the loader brings an operand of the grid's tasks.
  bool streams(GridId id) const;
  // Whether what it brings depends on the step: that must have begun, and with it all that others have
  // cleared. Whether it also depends on the step's lists.
  bool loads_in_step(GridId id) const;
  bool loads_by_lists(GridId id) const;
  // The loader: brings it through the ring for this worker's share, without waiting for events.
  void load_segment(GridId id, llvm::Value* record, llvm::Value* segment);

 private:
  const TaskGrid& grid(GridId id) const { return s_.program.grids[id]; }
  llvm::Value* inline_record_of(llvm::Value* notifier);  // of what the notifier's grid runs inline
  BodyCall body_call(GridId id, llvm::Value* record);
  llvm::Value* tokens_of(GridId id, llvm::Value* record);  // rows that a product makes
  llvm::Value* parts_of(GridId id, llvm::Value* record);   // into which a product's columns are split
  llvm::Value* strips_of(llvm::Value* record);             // of a product
  const Access* streamed(GridId id) const;                 // operand; null where there is none
  PlacementKind placement(GridId id) const { return s_.placements[id.index].kind; }
  bool claims(GridId id) const { return mode_ == Mode::kMegakernel && claims_by_ticket(placement(id)); }
  const std::vector<GridId>& code_of(GridId id) const;  // its kinds
  // Emits what depends on the kind within a code: emit(grid) for each, of which the record's runs. Returns
  // what that one does.
  std::vector<llvm::Value*> by_kind(GridId id, llvm::Value* record,
                                    const std::function<std::vector<llvm::Value*>(GridId)>& emit);
  Share share(GridId id, llvm::Value* record, llvm::Value* segment);
  // Consumer threads: visits the tasks that this worker runs; `first` says whether these are the segment's
  // first.
  void for_each_block(const BodyCall& call, llvm::Value* segment,
                      const std::function<void(const TaskBlock& tasks, llvm::Value* first)>& visit);
  void for_each_task(const TaskBlock& tasks, const std::function<void(llvm::Value* task)>& visit);
  // Consumer threads: the task claimed next, or a greater number than there are tasks.
  llvm::Value* next_task(GridId id, llvm::Value* record, llvm::Value* tasks);
  std::vector<llvm::Value*> coords_of(GridId id, llvm::Value* task);
  llvm::Value* tasks_of(const RaggedRows& ragged);  // of all rows of a ragged grid
  llvm::Value* tasks_of(GridId id, llvm::Value* record);
  llvm::Value* tasks_within(GridId id, size_t coords);  // with given values of the first coordinates
  // Row-major number of a cell, by the event's dims at run time.
  llvm::Value* cell_number(const Event& event, const std::vector<llvm::Value*>& cell);
  // Waits for the grid's lookup, where it has one and between kernels not at all, and sets the routed symbols
  // that it finds.
  void look_up(GridId id, llvm::Value* record, const char* primitive);
  // The counter that wait i of a grid polls, and what it expects there.
  std::pair<llvm::Value*, llvm::Value*> awaited(GridId id, llvm::Value* record, size_t i,
                                                const std::vector<llvm::Value*>& coords);
  // Waits of a task alone, or those that are the same for all of a segment, which its first tasks make.
  // Between kernels no waits, only a barrier for each block.
  enum class Waits { kOwn, kShared };
  void emit_waits(GridId id, llvm::Value* record, Waits waits, llvm::Value* task);
  void wait_for(GridId id, llvm::Value* record, const TaskBlock& tasks, llvm::Value* first);
  llvm::Value* log_of(llvm::Value* event_base, EventId event);  // its first counter
  // Calls visit(cell) for the cells of the box, or the first of `run` consecutive ones in its last dim.
  void for_each_run(const Notify& notify, const std::vector<llvm::Value*>& coords,
                    std::vector<llvm::Value*>& cell, const std::function<void(llvm::Value* run)>& visit);
  // All but those that run an inline grid; between kernels none.
  bool notifies_by_counter(GridId id, size_t notify) const;
  // What comes before notifications, once.
  void emit_release(GridId id);
  void emit_notifies(GridId id, const std::vector<llvm::Value*>& bases,
                     const std::vector<llvm::Value*>& coords);
  std::vector<llvm::Value*> notify_bases(GridId id, llvm::Value* record);
  std::optional<size_t> inlining_notify(GridId id) const;
  void notify_and_run(GridId id, llvm::Value* record, const std::vector<llvm::Value*>& bases,
                      const TaskBlock& tasks);
  // The coordinates of the inline task whose cell is `cell`: each walks an event dim, or is only ever 0.
  std::vector<llvm::Value*> inline_coords(GridId id, const std::vector<llvm::Value*>& cell);
  // The tasks of `id` whose cells, `cell` and those behind it, this worker has just completed.
  void run_inline(GridId id, llvm::Value* notifier, const std::vector<llvm::Value*>& cell,
                  llvm::Value* count);
  // Behind the barrier after a task: nobody reads its own scratch memory any more.
  void leave_scratch(GridId id);
  void begin_task(llvm::Value* record, llvm::Value* task);
  // The body, and notifications with what they run inline. `coords`: of the first.
  void run_task(const BodyCall& call, llvm::Value* arguments, const std::vector<llvm::Value*>& coords,
                const TaskBlock& tasks);
  // What brings `count` tasks of a grid from `first` on.
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
