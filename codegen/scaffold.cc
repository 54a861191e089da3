#include "codegen/scaffold.h"

#include <cstddef>
#include <functional>

#include "codegen/device/bodies.h"
#include "codegen/launch.h"
#include "codegen/tasks.h"
#include "runtime/abi/abi.h"

namespace mkc {
namespace {

class Scaffold {
 public:
  Scaffold(llvm::Module& module, const Schedule& schedule, const Kinds& kinds, const Engines& engines)
      : e_(module),
        s_(schedule),
        kinds_(kinds),
        lists_(find_lists(schedule.program)),
        engines_(engines),
        start_(e_, s_, lists_, engines, launch_),
        tasks_(e_, s_, kinds_, lists_, engines, launch_, Mode::kMegakernel) {}

  void emit() {
    std::vector<llvm::Type*> parameters = {e_.global_ptr, e_.global_ptr};
    if (!engines_.loader) parameters.push_back(e_.global_ptr);  // mkrt::MkThread
    e_.begin_kernel("mk_kernel", parameters);
    start_.load(e_.function->getArg(0), e_.function->getArg(1));
    start_.each_step_by_role(
        [&](const LaunchCode::Body& steps) {
          e_.call("mkd_segments_begin", {launch_.worker});
          steps();
          e_.call("mkd_segments_end", {launch_.worker});
        },
        [&] {
          for_each_segment([&](llvm::Value* record, llvm::Value* segment) { consume(record, segment); });
        },
        [&] { for_each_segment([&](llvm::Value* record, llvm::Value* segment) { load(record, segment); }); });
  }

 private:
  // The end of the stream is read before each segment, because the kernel has no register to keep it.
  void for_each_segment(const std::function<void(llvm::Value*, llvm::Value*)>& body) {
    const auto end = [&] { return e_.load32(launch_.arenas, offsetof(mk::Arenas, last_segment)); };
    e_.loop_until(e_.load32(launch_.arenas, offsetof(mk::Arenas, first_segment)), end, [&](llvm::Value* i) {
      llvm::Value* segment = e_.call("mkd_segment_begin", e_.shared_ptr, {launch_.worker, i});
      body(e_.at(segment, offsetof(mk::SegmentAhead, grid)), segment);
    });
  }

  // Dispatches on the record's kind to code for the kinds that `serves` accepts. Other kinds run no code.
  void dispatch(llvm::Value* record, const std::function<bool(GridId)>& serves,
                const std::function<void(GridId)>& body) {
    llvm::BasicBlock* after = e_.block("kinds_end");
    llvm::SwitchInst* chosen = e_.ir.CreateSwitch(e_.load32(record, offsetof(mkrt::MkGrid, kind)), after);
    for (const std::vector<GridId>& code : kinds_.shared_code_groups) {
      if (!serves(code.front())) continue;
      llvm::BasicBlock* here = e_.block("code");
      for (const GridId kind : code) chosen->addCase(e_.ir.getInt32(kinds_.of_grid[kind.index]), here);
      e_.ir.SetInsertPoint(here);
      body(code.front());
      e_.ir.CreateBr(after);
    }
    e_.ir.SetInsertPoint(after);
  }

  void consume(llvm::Value* record, llvm::Value* segment) {
    const auto serves = [&](GridId id) { return s_.placements[id.index].kind != PlacementKind::kInline; };
    dispatch(record, serves, [&](GridId id) {
      start_.load_values();
      tasks_.run_segment(id, record, segment);
    });
  }

  void load(llvm::Value* record, llvm::Value* segment) {
    const auto serves = [&](GridId id) { return tasks_.streams(id); };
    dispatch(record, serves, [&](GridId id) {
      const auto stream = [&] {
        start_.load_values();
        tasks_.load_segment(id, record, segment);
      };
      const auto in_lists = [&] {
        start_.with_lists(e_.load32(launch_.worker, offsetof(mk::Worker, load_step)), stream);
      };
      if (tasks_.loads_by_lists(id)) return start_.in_step(in_lists);
      tasks_.loads_in_step(id) ? start_.in_step(stream) : stream();
    });
  }

  Emitter e_;
  const Schedule& s_;
  const Kinds& kinds_;
  const StepLists lists_;
  const Engines engines_;
  LaunchValues launch_;
  LaunchCode start_;
  TaskCode tasks_;
};

}  // namespace

void emit_kernel(llvm::Module& module, const Schedule& schedule, const Kinds& kinds, const Engines& engines) {
  Scaffold(module, schedule, kinds, engines).emit();
}

}  // namespace mkc
