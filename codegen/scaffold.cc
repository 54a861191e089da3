#include "codegen/scaffold.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "codegen/bodies.h"
#include "codegen/device/bodies.h"
#include "codegen/emit.h"
#include "codegen/lists.h"

namespace mkc {
namespace {

// The tasks [first, last) of one grid that this worker runs; coordinates are row-major.
struct Share {
  llvm::Value *first, *last;
};

class Scaffold {
 public:
  Scaffold(llvm::Module& module, const Schedule& schedule, const Kinds& kinds, bool bulk_copy)
      : e_(module), s_(schedule), kinds_(kinds), lists_(find_lists(schedule)), bulk_copy_(bulk_copy) {
    e_.element = [this](SymbolId list, llvm::Value* index) {
      return e_.call("mkd_element", e_.ir.getInt32Ty(), {worker_, e_.constant(lists_.number(list)), index});
    };
  }

  void emit() {
    e_.begin_kernel("mk_kernel", 2);
    llvm::Value *session = e_.function->getArg(0), *step = e_.function->getArg(1);
    worker_ = e_.local(sizeof(mk::Worker));
    llvm::Value* loaders = e_.constant(bulk_copy_ ? 1 : mkrt::kWorkerThreads - mkrt::kConsumerThreads);
    e_.call("mkd_begin", {worker_, session, step, e_.constant(s_.ring.stages), loaders});
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
    e_.call("mkd_loader_end", {worker_});
    e_.ir.CreateBr(done);
    e_.ir.SetInsertPoint(done);
    e_.ir.CreateRetVoid();
  }

 private:
  const TaskGrid& grid(GridId id) const { return s_.program.grids[id]; }

  // Everything the streams need that is fixed for the launch.
  void load_launch(llvm::Value* session, llvm::Value* step) {
    bases_ = {e_.load_ptr(session, offsetof(mkrt::MkSession, weights)),
              e_.load_ptr(session, offsetof(mkrt::MkSession, workspace)),
              e_.load_ptr(session, offsetof(mkrt::MkSession, caches)), session, step};
    grids_ = e_.load_ptr(session, offsetof(mkrt::MkSession, grids));
    segments_ = e_.load_ptr(session, offsetof(mkrt::MkSession, segments));
    worker_index_ = e_.call("mk_worker", e_.ir.getInt32Ty(), {});
    llvm::Value* bounds =
        e_.at(e_.load_ptr(session, offsetof(mkrt::MkSession, stream_begin)), worker_index_, sizeof(uint32_t));
    stream_first_ = e_.load32(bounds, 0);
    stream_last_ = e_.load32(bounds, sizeof(uint32_t));
  }

  // Anew for each segment: what is computed from symbols then lives in registers for one kind only.
  void load_symbols() {
    e_.symbols.clear();
    for (SymbolId id : s_.program.symbols.ids())
      e_.symbols.push_back(s_.program.symbols[id].is_list()
                               ? nullptr
                               : e_.load32(bases_.step, offsetof(mkrt::MkStep, symbol) + 4 * id.index));
  }

  // Brings the step's lists to shared memory, and finds where the rows of ragged grids begin.
  void make_lists(llvm::Value* thread) {
    load_symbols();
    for (SymbolId list : lists_.given)
      e_.call("mkd_load_list", {worker_, bases_.step, e_.constant(lists_.number(list)),
                                e_.value(s_.program.symbols[list].length)});
    // The thread that brought element i of every list finds the extent of row i, so no barrier is needed
    // before; summing up ends with one.
    if (!lists_.given.empty() && lists_.ragged.empty()) e_.call("mkd_barrier", {});
    for (const RaggedRows& ragged : lists_.ragged) {
      llvm::Value *number = e_.constant(lists_.number(ragged)), *rows = e_.value(ragged.rows);
      e_.if_then(e_.ir.CreateICmpULT(thread, rows), [&] {
        e_.call("mkd_set_element", {worker_, number, thread, e_.value(ragged.extent, {thread})});
      });
      e_.call("mkd_sum_list", {worker_, number, rows});
    }
  }

  void for_each_segment(const std::function<void(llvm::Value*, llvm::Value*)>& body) {
    e_.loop(stream_first_, stream_last_, [&](llvm::Value* i) {
      llvm::Value* segment = e_.at(segments_, i, sizeof(mkrt::MkSegment));
      body(record_of(e_.load32(segment, offsetof(mkrt::MkSegment, grid))), segment);
    });
  }

  llvm::Value* record_of(llvm::Value* grid_index) { return e_.at(grids_, grid_index, sizeof(mkrt::MkGrid)); }

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
      e_.call("mkd_segment_begin", {worker_});
      load_symbols();
      body(kinds_.first[kind]);
      e_.ir.CreateBr(after);
    }
    e_.ir.SetInsertPoint(after);
  }

  Share share(GridId id, llvm::Value* segment) {
    if (s_.placements[id.index].kind != PlacementKind::kRange) {
      llvm::Value* first = e_.load32(segment, offsetof(mkrt::MkSegment, first));
      return {first, e_.ir.CreateAdd(first, e_.load32(segment, offsetof(mkrt::MkSegment, count)))};
    }
    llvm::Value* tasks = tasks_of(id);
    const auto bound = [&](llvm::Value* w) {
      return e_.ir.CreateUDiv(e_.ir.CreateMul(tasks, w), e_.constant(s_.workers));
    };
    return {bound(worker_index_), bound(e_.ir.CreateAdd(worker_index_, e_.constant(1)))};
  }

  // Of all rows of a ragged grid.
  llvm::Value* tasks_of(const RaggedRows& ragged) {
    return e_.call("mkd_element", e_.ir.getInt32Ty(),
                   {worker_, e_.constant(lists_.number(ragged)), e_.value(ragged.rows)});
  }

  llvm::Value* tasks_of(GridId id) {
    const std::optional<RaggedRows> ragged = ragged_rows(grid(id));
    llvm::Value* tasks = ragged ? tasks_of(*ragged) : e_.constant(1);
    for (size_t i = 0; i < grid(id).coords.size() - (ragged ? 2 : 0); ++i)
      tasks = e_.ir.CreateMul(tasks, e_.value(grid(id).coords[i].extent));
    return tasks;
  }

  std::vector<llvm::Value*> coords_of(GridId id, llvm::Value* task) {
    const std::vector<Coord>& coords = grid(id).coords;
    std::vector<llvm::Value*> values(coords.size());
    size_t plain = coords.size();
    if (const std::optional<RaggedRows> ragged = ragged_rows(grid(id))) {
      llvm::Value *all = tasks_of(*ragged), *number = e_.constant(lists_.number(*ragged)),
                  *within = e_.ir.CreateURem(task, all);
      task = e_.ir.CreateUDiv(task, all);
      llvm::Value* row =
          e_.call("mkd_row_of", e_.ir.getInt32Ty(), {worker_, number, e_.value(ragged->rows), within});
      values[--plain] =
          e_.ir.CreateSub(within, e_.call("mkd_element", e_.ir.getInt32Ty(), {worker_, number, row}));
      values[--plain] = row;
    }
    for (size_t i = plain; i-- > 0;) {
      if (i == 0) {
        values[i] = task;
        break;
      }
      llvm::Value* extent = e_.value(coords[i].extent);
      values[i] = e_.ir.CreateURem(task, extent);
      task = e_.ir.CreateUDiv(task, extent);
    }
    return values;
  }

  // Row-major number of a cell, by the event's dims at run time.
  llvm::Value* cell_number(const Event& event, const std::vector<llvm::Value*>& cell) {
    llvm::Value* number = e_.constant(0);
    for (size_t i = 0; i < cell.size(); ++i)
      number = e_.ir.CreateAdd(e_.ir.CreateMul(number, e_.value(event.dims[i])), cell[i]);
    return number;
  }

  // Those of the tasks, or of the loader.
  void emit_waits(GridId id, llvm::Value* record, const std::vector<llvm::Value*>& coords, bool loader) {
    const std::vector<Wait>& waits = grid(id).waits;
    for (size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].loader != loader) continue;
      const Event& event = s_.program.events[waits[i].event];
      std::vector<llvm::Value*> cell;
      for (const Expr& at : waits[i].cell) cell.push_back(e_.value(at, coords));
      llvm::Value* base = e_.load32(record, offsetof(mkrt::MkGrid, wait_base) + 4 * i);
      e_.call(loader ? "mkd_loader_wait" : "mkd_wait",
              {worker_, e_.ir.CreateAdd(base, cell_number(event, cell)), e_.value(event.expect, cell)});
    }
  }

  // Calls visit(cell) for the cells of the box, or the first of `run` consecutive ones in its last dim.
  void for_each_run(const Notify& notify, const std::vector<llvm::Value*>& coords,
                    std::vector<llvm::Value*>& cell, const std::function<void(llvm::Value* run)>& visit) {
    const size_t dim = cell.size();
    if (notify.cells.empty()) return visit(e_.constant(1));
    llvm::Value* first = e_.value(notify.cells[dim].offset, coords);
    llvm::Value* size = e_.value(notify.cells[dim].size, coords);
    size = e_.ir.CreateSelect(e_.ir.CreateICmpSGT(size, e_.constant(0)), size, e_.constant(0));
    if (dim + 1 == notify.cells.size()) {
      cell.push_back(first);
      visit(size);
      cell.pop_back();
      return;
    }
    e_.loop(first, e_.ir.CreateAdd(first, size), [&](llvm::Value* i) {
      cell.push_back(i);
      for_each_run(notify, coords, cell, visit);
      cell.pop_back();
    });
  }

  void emit_notifies(GridId id, llvm::Value* record, const std::vector<llvm::Value*>& coords) {
    const GridId inlined = inline_grid_of(s_, id);
    const std::vector<Notify>& notifies = grid(id).notifies;
    for (size_t i = 0; i < notifies.size(); ++i) {
      const Event& event = s_.program.events[notifies[i].event];
      llvm::Value* base = e_.load32(record, offsetof(mkrt::MkGrid, notify_base) + 4 * i);
      const bool runs = inlined.valid() && grid(inlined).waits[0].event == notifies[i].event;
      std::vector<llvm::Value*> cell;
      for_each_run(notifies[i], coords, cell, [&](llvm::Value* run) {
        llvm::Value* counter = e_.ir.CreateAdd(base, cell_number(event, cell));
        if (!runs) return e_.call("mkd_notify", {worker_, counter, run});
        llvm::Value* last =
            e_.call("mkd_notify_last", e_.ir.getInt1Ty(), {worker_, counter, e_.value(event.expect, cell)});
        e_.if_then(last, [&] { run_inline(inlined, record, cell); });
      });
    }
  }

  // The coordinates of the inline task whose cell is `cell`: each walks an event dim, or is only ever 0.
  std::vector<llvm::Value*> inline_coords(GridId id, const std::vector<llvm::Value*>& cell) {
    const Wait& wait = grid(id).waits[0];
    std::vector<llvm::Value*> coords;
    for (uint32_t i = 0; i < grid(id).coords.size(); ++i) {
      const auto walked = std::find(wait.cell.begin(), wait.cell.end(), coord(i));
      MKC_ASSERT(walked != wait.cell.end() || grid(id).coords[i].extent.is_const(1),
                 "the tasks of inline grid " + grid(id).name + " do not follow from their cells");
      coords.push_back(walked != wait.cell.end() ? cell[static_cast<size_t>(walked - wait.cell.begin())]
                                                 : e_.constant(0));
    }
    return coords;
  }

  // The task of `id` whose cell this worker has just completed.
  void run_inline(GridId id, llvm::Value* notifier, const std::vector<llvm::Value*>& cell) {
    llvm::Value* record = record_of(e_.load32(notifier, offsetof(mkrt::MkGrid, inline_grid)));
    const BodyCall call{s_, lists_, id, record, bases_, worker_};
    const std::vector<llvm::Value*> coords = inline_coords(id, cell);
    llvm::Value* task = e_.constant(0);
    for (size_t i = 0; i < coords.size(); ++i)
      task = e_.ir.CreateAdd(e_.ir.CreateMul(task, e_.value(grid(id).coords[i].extent)), coords[i]);
    begin_task(record, task);
    run_task(call, emit_arguments(e_, call), coords);
  }

  void begin_task(llvm::Value* record, llvm::Value* task) {
    e_.call("mkd_task_begin", {worker_, e_.load32(record, offsetof(mkrt::MkGrid, id)), task});
  }

  void run_task(const BodyCall& call, llvm::Value* arguments, const std::vector<llvm::Value*>& coords) {
    emit_task(e_, call, arguments, coords);
    if (!grid(call.grid).notifies.empty()) {
      e_.call("mkd_barrier", {});
      emit_notifies(call.grid, call.record, coords);
    }
    e_.call("mkd_task_end", {worker_});
  }

  void consume(llvm::Value* record, llvm::Value* segment) {
    const auto serves = [&](GridId id) { return s_.placements[id.index].kind != PlacementKind::kInline; };
    dispatch(record, serves, [&](GridId id) {
      const BodyCall call{s_, lists_, id, record, bases_, worker_};
      const Share tasks = share(id, segment);
      llvm::Value* arguments = emit_arguments(e_, call);
      e_.loop(tasks.first, tasks.last, [&](llvm::Value* task) {
        const std::vector<llvm::Value*> coords = coords_of(id, task);
        begin_task(record, task);
        emit_waits(id, record, coords, false);
        e_.if_then(e_.ir.CreateICmpEQ(task, tasks.first), [&] { emit_segment_start(e_, call, arguments); });
        run_task(call, arguments, coords);
      });
    });
  }

  // The streamed operand of a grid, by position; size() of the reads where there is none.
  size_t streamed(GridId id) const {
    const std::vector<Access>& reads = grid(id).reads;
    size_t i = 0;
    while (i < reads.size() && !reads[i].stream) ++i;
    return i;
  }

  // Rows of the activations that a product multiplies.
  Expr tokens_of(GridId id) const {
    for (const Access& access : grid(id).reads)
      if (access.role == "x") return s_.program.tensors[access.tensor].shape[0];
    MKC_BUG("grid " + grid(id).name + " streams but multiplies nothing");
  }

  void load_experts(GridId id, llvm::Value* record, llvm::Value* segment, int64_t elem_bytes) {
    const BodyCall call{s_, lists_, id, record, bases_, worker_};
    const Share tasks = share(id, segment);
    emit_waits(id, record, {}, true);
    e_.call(bulk_copy_ ? "mkd_stream_experts_bulk" : "mkd_stream_experts_async",
            {worker_, operand_address(e_, call, streamed(id)), emit_arguments(e_, call),
             e_.constant(elem_bytes), tasks.first, e_.ir.CreateSub(tasks.last, tasks.first)});
  }

  void load(llvm::Value* record, llvm::Value* segment) {
    const auto serves = [&](GridId id) { return streamed(id) < grid(id).reads.size(); };
    dispatch(record, serves, [&](GridId id) {
      const Tensor& weight = s_.program.tensors[grid(id).reads[streamed(id)].tensor];
      if (grid(id).body == BodyKind::kExpert)
        return load_experts(id, record, segment, dtype_bytes(weight.dtype));
      const auto shape = mkrt::packed_shape(static_cast<uint64_t>(weight.shape[0].constant()),
                                            static_cast<uint64_t>(weight.shape[1].constant()),
                                            static_cast<uint32_t>(dtype_bytes(weight.dtype)));
      const uint64_t tail = shape.strip_bytes - uint64_t{shape.tiles - 1} * mkrt::kStageBytes;
      const Share tasks = share(id, segment);
      const uint32_t group = shape.elem_bytes == 4 ? mk::kGroupTokensF32 : mk::kGroupTokens;
      llvm::Value* passes = e_.value(ceil_div(tokens_of(id), group));
      e_.call(bulk_copy_ ? "mkd_stream_bulk" : "mkd_stream_async",
              {worker_, operand_address(e_, {s_, lists_, id, record, bases_, worker_}, streamed(id)),
               tasks.first, e_.ir.CreateSub(tasks.last, tasks.first), e_.constant(shape.tiles),
               e_.constant(static_cast<int64_t>(tail)), passes});
    });
  }

  Emitter e_;
  const Schedule& s_;
  const Kinds& kinds_;
  const StepLists lists_;
  const bool bulk_copy_;
  Bases bases_{};
  llvm::Value *worker_ = nullptr, *worker_index_ = nullptr, *grids_ = nullptr, *segments_ = nullptr,
              *stream_first_ = nullptr, *stream_last_ = nullptr;
};

}  // namespace

void emit_kernel(llvm::Module& module, const Schedule& schedule, const Kinds& kinds, bool bulk_copy) {
  Scaffold(module, schedule, kinds, bulk_copy).emit();
}

}  // namespace mkc
