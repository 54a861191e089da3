#include "codegen/tasks.h"

#include <algorithm>
#include <cstddef>

#include "codegen/device/bodies.h"
#include "ir/values.h"
#include "runtime/abi/abi.h"
#include "runtime/abi/packing.h"

namespace mkc {

llvm::Value* TaskCode::record_of(llvm::Value* grid_index) {
  return e_.at(e_.load_ptr(launch_.bases.session, offsetof(mkrt::MkSession, grids)), grid_index,
               sizeof(mkrt::MkGrid));
}

llvm::Value* TaskCode::inline_record_of(llvm::Value* notifier) {
  if (mode_ == Mode::kKernels) return record_of(e_.load32(notifier, offsetof(mkrt::MkGrid, inline_grid)));
  return e_.at(notifier, offsetof(mk::SegmentAhead, inlined) - offsetof(mk::SegmentAhead, grid));
}

const std::vector<GridId>& TaskCode::code_of(GridId id) const {
  const GridId first = kinds_.first[kinds_.of_grid[id.index]];  // an inline grid need not be its kind's first
  return *std::find_if(
      kinds_.shared_code_groups.begin(), kinds_.shared_code_groups.end(),
      [&](const auto& kinds) { return std::find(kinds.begin(), kinds.end(), first) != kinds.end(); });
}

std::vector<llvm::Value*> TaskCode::by_kind(GridId id, llvm::Value* record,
                                            const std::function<std::vector<llvm::Value*>(GridId)>& emit) {
  const std::vector<GridId>& code = code_of(id);
  if (mode_ == Mode::kKernels || code.size() == 1) return emit(id);
  llvm::BasicBlock *after = e_.block("kinds_end"), *first = e_.block("kind");
  llvm::SwitchInst* chosen = e_.ir.CreateSwitch(e_.load32(record, offsetof(mkrt::MkGrid, kind)), first);
  std::vector<llvm::PHINode*> results;
  for (const GridId kind : code) {
    llvm::BasicBlock* here = kind == code.front() ? first : e_.block("kind");
    if (here != first) chosen->addCase(e_.ir.getInt32(kinds_.of_grid[kind.index]), here);
    e_.ir.SetInsertPoint(here);
    const std::vector<llvm::Value*> values = emit(kind);
    llvm::BasicBlock* end = e_.ir.GetInsertBlock();
    e_.ir.CreateBr(after);
    e_.ir.SetInsertPoint(after);
    for (size_t i = 0; i < values.size(); ++i) {
      if (kind == code.front()) results.push_back(e_.ir.CreatePHI(values[i]->getType(), 2));
      results[i]->addIncoming(values[i], end);
    }
  }
  return {results.begin(), results.end()};
}

llvm::Value* TaskCode::tokens_of(GridId id, llvm::Value* record) {
  return by_kind(id, record,
                 [&](GridId kind) { return std::vector{e_.value(rows_made(s_.program, grid(kind)))}; })[0];
}

llvm::Value* TaskCode::parts_of(GridId id, llvm::Value* record) {
  const std::vector<GridId>& code = code_of(id);
  const bool alike = std::all_of(code.begin(), code.end(),
                                 [&](GridId kind) { return split_k(grid(kind)) == split_k(grid(id)); });
  if (mode_ == Mode::kKernels || alike) return e_.constant(split_k(grid(id)));
  return e_.load32(record, offsetof(mkrt::MkGrid, product) + offsetof(mkrt::MkProduct, split_k));
}

llvm::Value* TaskCode::task_strips_of(GridId id, llvm::Value* record) {
  return by_kind(id, record, [&](GridId kind) {
    return std::vector<llvm::Value*>{e_.constant(task_strips(grid(kind)))};
  })[0];
}

llvm::Value* TaskCode::strips_of(llvm::Value* record) {
  return e_.load32(record, offsetof(mkrt::MkGrid, product) + offsetof(mkrt::MkProduct, strips));
}

BodyCall TaskCode::body_call(GridId id, llvm::Value* record) {
  return {s_,
          lists_,
          engines_,
          id,
          record,
          launch_.bases,
          launch_.worker,
          multiplies_in_blocks(grid(id)) ? tokens_of(id, record) : nullptr,
          multiplies_in_blocks(grid(id)) ? parts_of(id, record) : nullptr,
          grid(id).body == BodyKind::kExpert ? task_strips_of(id, record) : nullptr};
}

Share TaskCode::share(GridId id, llvm::Value* record, llvm::Value* segment) {
  const bool planned = mode_ == Mode::kMegakernel;
  llvm::Value* first = planned ? e_.load32(segment, offsetof(mkrt::MkSegment, first)) : launch_.worker_index;
  if (planned && s_.placements[id.index].kind != PlacementKind::kRange)
    return {first, e_.ir.CreateAdd(first, e_.load32(segment, offsetof(mkrt::MkSegment, count)))};
  llvm::Value* tasks = tasks_of(id, record);
  const auto bound = [&](llvm::Value* share) {
    return e_.ir.CreateUDiv(e_.ir.CreateMul(tasks, share), e_.constant(s_.workers));
  };
  return {bound(first), bound(e_.ir.CreateAdd(first, e_.constant(1)))};
}

llvm::Value* TaskCode::tasks_of(const RaggedRows& ragged) {
  return e_.call("mkd_element", e_.ir.getInt32Ty(),
                 {launch_.worker, e_.constant(lists_.at(ragged)), e_.value(ragged.rows)});
}

llvm::Value* TaskCode::tasks_of(GridId id, llvm::Value* record) {
  if (!multiplies_in_blocks(grid(id)))
    return by_kind(id, record, [&](GridId kind) { return std::vector{tasks_within(kind, 0)}; })[0];
  return e_.ir.CreateMul(strips_of(record), parts_of(id, record));
}

llvm::Value* TaskCode::tasks_within(GridId id, size_t coords) {
  const std::optional<RaggedRows> ragged = ragged_rows(grid(id));
  llvm::Value* tasks = ragged ? tasks_of(*ragged) : e_.constant(1);
  for (size_t i = coords; i < grid(id).coords.size() - (ragged ? 2 : 0); ++i)
    tasks = e_.ir.CreateMul(tasks, e_.value(grid(id).coords[i].extent));
  return tasks;
}

std::vector<llvm::Value*> TaskCode::coords_of(GridId id, llvm::Value* task) {
  const std::vector<Coord>& coords = grid(id).coords;
  std::vector<llvm::Value*> values(coords.size());
  size_t plain = coords.size();
  if (const std::optional<RaggedRows> ragged = ragged_rows(grid(id))) {
    llvm::Value *all = tasks_of(*ragged), *list = e_.constant(lists_.at(*ragged)),
                *within = e_.ir.CreateURem(task, all);
    task = e_.ir.CreateUDiv(task, all);
    llvm::Value* row =
        e_.call("mkd_row_of", e_.ir.getInt32Ty(), {launch_.worker, list, e_.value(ragged->rows), within});
    values[--plain] =
        e_.ir.CreateSub(within, e_.call("mkd_element", e_.ir.getInt32Ty(), {launch_.worker, list, row}));
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

std::vector<llvm::Value*> TaskCode::inline_coords(GridId id, const std::vector<llvm::Value*>& cell) {
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

void TaskCode::run_inline(GridId id, llvm::Value* notifier, const std::vector<llvm::Value*>& cell,
                          llvm::Value* count) {
  llvm::Value* record = inline_record_of(notifier);
  const BodyCall call = body_call(id, record);
  const std::vector<llvm::Value*> coords = inline_coords(id, cell);
  llvm::Value* task = e_.constant(0);
  for (size_t i = 0; i < coords.size(); ++i)
    task = e_.ir.CreateAdd(e_.ir.CreateMul(task, e_.value(grid(id).coords[i].extent)), coords[i]);
  begin_task(record, task);
  e_.call("mkd_task_ready", {launch_.worker, count});
  llvm::Value* arguments = emit_arguments(e_, call);
  emit_epilogue(e_, call, arguments);
  run_task(call, arguments, coords, {task, count});
}

void TaskCode::begin_task(llvm::Value* record, llvm::Value* task) {
  e_.call("mkd_task_begin", {launch_.worker, e_.load32(record, offsetof(mkrt::MkGrid, id)), task});
}

// Inline tasks run within a segment of products, so they leave the scratch memory of that segment alone.
void TaskCode::leave_scratch(GridId id) {
  const bool of_product = multiplies(grid(id)) || grid(id).body == BodyKind::kSplitKReduce ||
                          placement(id) == PlacementKind::kInline;
  e_.call("mkd_task_left", {launch_.worker, e_.constant(of_product ? mk::kEpilogueBytes : 0),
                            e_.constant(of_product ? mk::kProductSumBytes : mk::kScratchBytes)});
}

void TaskCode::run_task(const BodyCall& call, llvm::Value* arguments, const std::vector<llvm::Value*>& coords,
                        const TaskBlock& tasks) {
  emit_task(e_, call, arguments, coords, tasks.first, tasks.count);
  e_.call("mkd_task_end", {launch_.worker, tasks.count});
  if (grid(call.grid).notifies.empty()) return;
  // The bases are loaded before the barrier, so that no load delays the notification after the last store.
  by_kind(call.grid, call.record, [&](GridId kind) {
    const std::vector<llvm::Value*> bases = notify_bases(kind, call.record);
    e_.call("mkd_barrier", {});
    leave_scratch(kind);
    emit_release(kind);
    for_each_task(tasks, [&](llvm::Value* task) { emit_notifies(kind, bases, coords_of(kind, task)); });
    notify_and_run(kind, call.record, bases, tasks);
    return std::vector<llvm::Value*>{};
  });
}

llvm::Value* TaskCode::next_task(GridId id, llvm::Value* record, llvm::Value* tasks) {
  llvm::Type* number = e_.ir.getInt32Ty();
  llvm::Value* tickets = e_.load32(record, offsetof(mkrt::MkGrid, tickets));
  if (placement(id) == PlacementKind::kQueue)
    return loads(id) ? e_.call("mkd_next_handed", number, {launch_.worker})
                     : e_.call("mkd_next_queued", number, {launch_.worker, tickets});
  const Wait& wait = grid(id).waits[0];
  llvm::Value* log = log_of(e_.load32(record, offsetof(mkrt::MkGrid, wait_base)), wait.event);
  llvm::Value* task = e_.call("mkd_next_ready", number,
                              {launch_.worker, tickets, tasks, e_.load32(record, offsetof(mkrt::MkGrid, id)),
                               log, tasks_within(id, wait.cell.size())});
  if (loads(id)) e_.call("mkd_hand_back", {launch_.worker, task});
  return task;
}

void TaskCode::for_each_block(const BodyCall& call, llvm::Value* segment,
                              const std::function<void(const TaskBlock&, llvm::Value*)>& visit) {
  const GridId id = call.grid;
  llvm::Value* record = call.record;
  if (claims(id)) {
    llvm::Value* tasks = tasks_of(id, record);
    e_.claim_loop([&] { return next_task(id, record, tasks); }, tasks,
                  [&](llvm::Value* task, llvm::Value* first) { visit({task, e_.constant(1)}, first); });
    return;
  }
  const Share tasks = share(id, record, segment);
  if (takes_experts_whole(id)) return for_each_expert(id, tasks, visit);
  const bool in_blocks = multiplies_in_blocks(grid(id));
  llvm::Value* max = e_.constant(1);
  if (in_blocks) {
    const mkrt::WeightType type = streamed_type(id);
    max = e_.ir.CreateSelect(
        e_.ir.CreateICmpUGT(call.tokens, e_.constant(mkrt::kSameStreamTokens)),
        e_.constant(mkrt::block_strips(mkrt::kMma32Tokens, type, mkrt::mma64_strips(engines_.warpgroups))),
        e_.constant(mkrt::weight_format(type).block_strips));
  }
  const auto min = [&](llvm::Value* a, llvm::Value* b) {
    return e_.ir.CreateSelect(e_.ir.CreateICmpULT(a, b), a, b);
  };
  e_.striding_loop(tasks.first, tasks.last, [&](llvm::Value* task) {
    llvm::Value* count = max;
    if (in_blocks) count = min(e_.ir.CreateSub(tasks.last, task), count);
    if (is_split(call)) {  // a block lies within one part
      llvm::Value* of_part = strips_of(record);
      count = min(e_.ir.CreateSub(of_part, e_.ir.CreateURem(task, of_part)), count);
    }
    visit({task, count}, e_.ir.CreateICmpEQ(task, tasks.first));
    return count;
  });
}

void TaskCode::for_each_expert(GridId id, const Share& share,
                               const std::function<void(const TaskBlock&, llvm::Value*)>& visit) {
  llvm::Value *active_experts = tasks_within(id, 1), *count = e_.ir.CreateSub(share.last, share.first);
  e_.loop(e_.constant(0), e_.ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, active_experts, count),
          [&](llvm::Value* expert) {
            llvm::Value* first = e_.ir.CreateAdd(share.first, expert);
            e_.striding_loop(first, share.last, [&](llvm::Value* task) {
              visit({task, e_.constant(1)}, e_.ir.CreateICmpEQ(task, share.first));
              return active_experts;
            });
          });
}

void TaskCode::for_each_task(const TaskBlock& tasks, const std::function<void(llvm::Value*)>& visit) {
  if (llvm::isa<llvm::Constant>(tasks.count)) return visit(tasks.first);  // a constant count is 1
  e_.loop(tasks.first, e_.ir.CreateAdd(tasks.first, tasks.count), visit);
}

void TaskCode::run_segment(GridId id, llvm::Value* record, llvm::Value* segment) {
  const BodyCall call = body_call(id, record);
  look_up(id, record, "mkd_look_up");
  llvm::Value* arguments = emit_arguments(e_, call);
  emit_epilogue(e_, call, arguments);
  emit_rows(e_, call, arguments);
  if (const Access* weight = streamed(id); weight && !engines_.loader && reads_weights(id))
    e_.call("mkd_stream", {launch_.worker, operand_address(e_, call, weight->role)});
  for_each_block(call, segment, [&](const TaskBlock& tasks, llvm::Value* first) {
    begin_task(record, tasks.first);
    // Coordinates follow from the step's lists, so they are found before the wait.
    const std::vector<llvm::Value*> coords = coords_of(id, tasks.first);
    wait_for(id, record, tasks, coords, first);
    e_.call("mkd_task_ready", {launch_.worker, tasks.count});
    e_.if_then(first, [&] { emit_segment_start(e_, call, arguments); });
    run_task(call, arguments, coords, tasks);
  });
}

}  // namespace mkc
