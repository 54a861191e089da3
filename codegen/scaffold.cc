#include "codegen/scaffold.h"

#include <cstddef>
#include <functional>

#include "codegen/device/bodies.h"
#include "codegen/emit.h"
#include "codegen/lists.h"
#include "codegen/tasks.h"

namespace mkc {
namespace {

class Scaffold {
 public:
  Scaffold(llvm::Module& module, const Schedule& schedule, const Kinds& kinds, bool bulk_copy)
      : e_(module),
        s_(schedule),
        kinds_(kinds),
        lists_(find_lists(schedule)),
        bulk_copy_(bulk_copy),
        tasks_(e_, s_, lists_, launch_) {
    e_.element = [this](SymbolId list, llvm::Value* index) {
      return e_.call("mkd_element", e_.ir.getInt32Ty(),
                     {launch_.worker, e_.constant(lists_.number(list)), index});
    };
  }

  void emit() {
    e_.begin_kernel("mk_kernel", 2);
    llvm::Value *session = e_.function->getArg(0), *step = e_.function->getArg(1);
    launch_.worker = e_.local(sizeof(mk::Worker));
    llvm::Value* loaders = e_.constant(bulk_copy_ ? 1 : mkrt::kWorkerThreads - mkrt::kConsumerThreads);
    e_.call("mkd_begin", {launch_.worker, session, step, e_.constant(s_.ring.stages), loaders});
    load_launch(session, step);

    llvm::BasicBlock *consumers = e_.block("consumers"), *loader_warp = e_.block("loader_warp"),
                     *loader = e_.block("loader"), *done = e_.block("done");
    llvm::Value* thread = e_.call("mk_thread", e_.ir.getInt32Ty(), {});
    e_.ir.CreateCondBr(e_.ir.CreateICmpULT(thread, e_.constant(mkrt::kConsumerThreads)), consumers,
                       loader_warp);
    e_.ir.SetInsertPoint(consumers);
    make_lists(thread);
    for_each_segment([&](llvm::Value* record, llvm::Value* segment) { consume(record, segment); });
    e_.ir.CreateBr(done);
    e_.ir.SetInsertPoint(loader_warp);
    llvm::Value* in_warp = e_.ir.CreateSub(thread, e_.constant(mkrt::kConsumerThreads));
    e_.ir.CreateCondBr(e_.ir.CreateICmpULT(in_warp, loaders), loader, done);
    e_.ir.SetInsertPoint(loader);
    for_each_segment([&](llvm::Value* record, llvm::Value* segment) { load(record, segment); });
    e_.call("mkd_loader_end", {launch_.worker});
    e_.ir.CreateBr(done);
    e_.ir.SetInsertPoint(done);
    e_.ir.CreateRetVoid();
  }

 private:
  // Everything the streams need that is fixed for the launch.
  void load_launch(llvm::Value* session, llvm::Value* step) {
    launch_.bases = {e_.load_ptr(session, offsetof(mkrt::MkSession, weights)),
                     e_.load_ptr(session, offsetof(mkrt::MkSession, workspace)),
                     e_.load_ptr(session, offsetof(mkrt::MkSession, caches)), session, step};
    launch_.grids = e_.load_ptr(session, offsetof(mkrt::MkSession, grids));
    segments_ = e_.load_ptr(session, offsetof(mkrt::MkSession, segments));
    launch_.worker_index = e_.call("mk_worker", e_.ir.getInt32Ty(), {});
    llvm::Value* bounds = e_.at(e_.load_ptr(session, offsetof(mkrt::MkSession, stream_begin)),
                                launch_.worker_index, sizeof(uint32_t));
    stream_first_ = e_.load32(bounds, 0);
    stream_last_ = e_.load32(bounds, sizeof(uint32_t));
  }

  // Anew for each segment: what is computed from symbols then lives in registers for one kind only.
  void load_symbols() {
    e_.symbols.clear();
    for (SymbolId id : s_.program.symbols.ids())
      e_.symbols.push_back(
          s_.program.symbols[id].is_list()
              ? nullptr
              : e_.load32(launch_.bases.step, offsetof(mkrt::MkStep, symbol) + 4 * id.index));
  }

  // Brings the step's lists to shared memory, and finds where the rows of ragged grids begin.
  void make_lists(llvm::Value* thread) {
    load_symbols();
    for (SymbolId list : lists_.given)
      e_.call("mkd_load_list", {launch_.worker, launch_.bases.step, e_.constant(lists_.number(list)),
                                e_.value(s_.program.symbols[list].length)});
    // The thread that brought element i of every list finds the extent of row i, so no barrier is needed
    // before; summing up ends with one.
    if (!lists_.given.empty() && lists_.ragged.empty()) e_.call("mkd_barrier", {});
    for (const RaggedRows& ragged : lists_.ragged) {
      llvm::Value *number = e_.constant(lists_.number(ragged)), *rows = e_.value(ragged.rows);
      e_.if_then(e_.ir.CreateICmpULT(thread, rows), [&] {
        e_.call("mkd_set_element", {launch_.worker, number, thread, e_.value(ragged.extent, {thread})});
      });
      e_.call("mkd_sum_list", {launch_.worker, number, rows});
    }
  }

  void for_each_segment(const std::function<void(llvm::Value*, llvm::Value*)>& body) {
    e_.loop(stream_first_, stream_last_, [&](llvm::Value* i) {
      llvm::Value* segment = e_.at(segments_, i, sizeof(mkrt::MkSegment));
      body(tasks_.record_of(e_.load32(segment, offsetof(mkrt::MkSegment, grid))), segment);
    });
  }

  // Dispatches on the record's kind to the kinds that `serves` holds for; others fall through.
  void dispatch(llvm::Value* record, const std::function<bool(GridId)>& serves,
                const std::function<void(GridId)>& body) {
    llvm::BasicBlock* after = e_.block("kinds_end");
    llvm::SwitchInst* chosen = e_.ir.CreateSwitch(e_.load32(record, offsetof(mkrt::MkGrid, kind)), after);
    for (uint32_t kind = 0; kind < kinds_.first.size(); ++kind) {
      if (!serves(kinds_.first[kind])) continue;
      llvm::BasicBlock* here = e_.block("kind");
      chosen->addCase(e_.ir.getInt32(kind), here);
      e_.ir.SetInsertPoint(here);
      e_.call("mkd_segment_begin", {launch_.worker});
      load_symbols();
      body(kinds_.first[kind]);
      e_.ir.CreateBr(after);
    }
    e_.ir.SetInsertPoint(after);
  }

  void consume(llvm::Value* record, llvm::Value* segment) {
    const auto serves = [&](GridId id) { return s_.placements[id.index].kind != PlacementKind::kInline; };
    dispatch(record, serves, [&](GridId id) { tasks_.run_segment(id, record, segment); });
  }

  void load(llvm::Value* record, llvm::Value* segment) {
    const auto serves = [&](GridId id) { return tasks_.streams(id); };
    dispatch(record, serves, [&](GridId id) { tasks_.load_segment(id, record, segment, bulk_copy_); });
  }

  Emitter e_;
  const Schedule& s_;
  const Kinds& kinds_;
  const StepLists lists_;
  const bool bulk_copy_;
  LaunchValues launch_;
  llvm::Value *segments_ = nullptr, *stream_first_ = nullptr, *stream_last_ = nullptr;
  TaskCode tasks_;
};

}  // namespace

void emit_kernel(llvm::Module& module, const Schedule& schedule, const Kinds& kinds, bool bulk_copy) {
  Scaffold(module, schedule, kinds, bulk_copy).emit();
}

}  // namespace mkc
