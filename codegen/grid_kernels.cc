#include "codegen/grid_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "codegen/launch.h"
#include "codegen/tasks.h"
#include "runtime/abi/abi.h"

namespace mkc {
namespace {

bool is_inline(const Schedule& schedule, GridId id) {
  return schedule.placements[id.index].kind == PlacementKind::kInline;
}

}  // namespace

const char* mode_name(Mode mode) {
  switch (mode) {
    case Mode::kMegakernel:
      return "megakernel";
    case Mode::kTraced:
      return "traced";
    case Mode::kKernels:
      return "kernels";
  }
  MKC_BUG("unknown mode");
}

std::vector<GridId> launches_of(const Schedule& schedule) {
  std::vector<GridId> launches;
  for (GridId id : schedule.program.grids.ids())
    if (!is_inline(schedule, id)) launches.push_back(id);
  return launches;
}

void emit_grid_kernels(llvm::Module& module, const Schedule& schedule, const Kinds& kinds,
                       const Engines& engines) {
  Emitter e(module);
  const StepLists lists = find_lists(schedule.program);
  LaunchValues launch;
  LaunchCode start(e, schedule, lists, engines, launch);
  TaskCode tasks(e, schedule, kinds, lists, engines, launch, Mode::kKernels);
  const uint32_t last_kind = kinds.of_grid[launches_of(schedule).back().index];
  MKC_ASSERT(std::count(kinds.of_grid.begin(), kinds.of_grid.end(), last_kind) == 1,
             "the last grid of a step is of a kind with others");
  for (uint32_t kind = 0; kind < kinds.first.size(); ++kind) {
    const GridId id = kinds.first[kind];
    if (is_inline(schedule, id)) continue;
    std::vector<llvm::Type*> parameters = {e.global_ptr, e.global_ptr, e.ir.getInt32Ty()};
    if (!engines.loader) parameters.push_back(e.global_ptr);  // mkrt::MkThread
    e.begin_kernel(fmt::format("mk_grid_{}", kind), parameters);
    // `begun` is loaded before the worker's first barrier, and so before any worker can make the next step.
    llvm::Value* begun = e.load32(e.function->getArg(1), offsetof(mkrt::MkStep, begun));
    start.load(e.function->getArg(0), e.function->getArg(1));
    llvm::BasicBlock *ended = e.block("ended"), *goes_on = e.block("goes_on");
    e.ir.CreateCondBr(e.ir.CreateICmpEQ(begun, e.constant(mkrt::kLaunchOver)), ended, goes_on);
    e.ir.SetInsertPoint(ended);
    e.ir.CreateRetVoid();
    e.ir.SetInsertPoint(goes_on);
    if (engines.loader) e.call("mk_start_next", {});  // kernels of a processor never overlap
    llvm::Value* record = tasks.record_of(e.function->getArg(2));
    start.by_role(
        // Workers with an empty share wait, too. The next kernel relies on this one to end after all before
        // it.
        [&] {
          if (engines.loader) e.call("mk_await_kernels", {});
          tasks.run_segment(id, record, nullptr);
          if (kind == last_kind) e.call("mkd_leave_next_step", start.next_step());
        },
        [&] {
          const auto stream = [&] {
            start.load_values();
            tasks.load_segment(id, record, nullptr);
          };
          if (tasks.loads_in_step(id)) e.call("mk_await_kernels", {});
          if (tasks.loads_by_lists(id)) return start.with_lists(e.constant(0), stream);
          if (tasks.streams(id)) stream();
        });
  }
}

}  // namespace mkc
