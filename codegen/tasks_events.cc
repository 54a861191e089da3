// Generated code waits for a grid's events, makes its lookup and notifies.
#include <algorithm>
#include <cstddef>

#include "codegen/tasks.h"
#include "ir/values.h"
#include "ir/waits.h"
#include "runtime/abi/abi.h"

namespace mkc {
namespace {

constexpr uint32_t kNoCounter = ~0u;  // of a kind that lacks a wait of the kinds that share its code

}  // namespace

llvm::Value* TaskCode::cell_number(const Event& event, const std::vector<llvm::Value*>& cell) {
  llvm::Value* number = e_.constant(0);
  for (size_t i = 0; i < cell.size(); ++i)
    number = e_.ir.CreateAdd(e_.ir.CreateMul(number, e_.value(event.dims[i])), cell[i]);
  return number;
}

llvm::Value* TaskCode::log_of(llvm::Value* event_base, EventId event) {
  return e_.ir.CreateAdd(event_base, e_.constant(max_cells(s_.program, event)));
}

std::pair<llvm::Value*, llvm::Value*> TaskCode::awaited(GridId id, llvm::Value* record, size_t i,
                                                        const std::vector<llvm::Value*>& coords) {
  const Wait& wait = grid(id).waits[i];
  const Event& event = s_.program.events[wait.event];
  std::vector<llvm::Value*> cell;
  for (const Expr& at : wait.cell) cell.push_back(e_.value(at, coords));
  llvm::Value* base = e_.load32(record, offsetof(mkrt::MkGrid, wait_base) + 4 * i);
  // Mode kKernels launches kernels in program order, so producers have ended by now.
  llvm::Value* expect = mode_ == Mode::kKernels ? e_.constant(0) : e_.value(event.expect, cell);
  return {e_.ir.CreateAdd(base, cell_number(event, cell)), expect};
}

void TaskCode::emit_waits(GridId id, llvm::Value* record, Waits waits, const Coords& coords) {
  const auto has = [&](GridId kind, size_t i) {
    const std::vector<Wait>& of = grid(kind).waits;
    return i < of.size() && !of[i].lookup && waits_once(grid(kind), of[i]) == (waits == Waits::kShared);
  };
  const std::vector<GridId>& kinds = mode_ == Mode::kKernels ? std::vector{id} : code_of(id);
  for (size_t i = 0; i < mkrt::kMaxWaits; ++i) {
    const auto waiting = std::count_if(kinds.begin(), kinds.end(), [&](GridId kind) { return has(kind, i); });
    if (waiting == 0) continue;
    const std::vector<llvm::Value*> values = by_kind(id, record, [&](GridId kind) {
      if (!has(kind, i)) return std::vector<llvm::Value*>{e_.constant(kNoCounter), e_.constant(0)};
      const auto [counter, expect] =
          awaited(kind, record, i, coords ? coords(kind) : std::vector<llvm::Value*>());
      return std::vector<llvm::Value*>{counter, expect};
    });
    const auto wait = [&] { e_.call("mkd_wait", {launch_.worker, values[0], values[1]}); };
    if (waiting == std::ssize(kinds))
      wait();
    else
      e_.if_then(e_.ir.CreateICmpNE(values[0], e_.constant(kNoCounter)), wait);
  }
}

void TaskCode::wait_for(GridId id, llvm::Value* record, const TaskBlock& tasks,
                        const std::vector<llvm::Value*>& coords, llvm::Value* first) {
  // The barrier keeps the next tasks from overwriting scratch memory that threads still read. A wait has such
  // a barrier, too.
  if (mode_ == Mode::kKernels) return e_.call("mkd_barrier", {});
  if (claims(id) && placement(id) == PlacementKind::kReady) return;
  const bool one_kind = code_of(id).size() == 1;
  for_each_task(tasks, [&](llvm::Value* task) {
    emit_waits(id, record, Waits::kOwn,
               [&](GridId kind) { return one_kind && task == tasks.first ? coords : coords_of(kind, task); });
  });
  e_.if_then(first, [&] { emit_waits(id, record, Waits::kShared, {}); });
}

void TaskCode::look_up(GridId id, llvm::Value* record, const char* primitive) {
  const std::vector<Access>& reads = grid(id).reads;
  for (size_t i = 0; i < grid(id).waits.size(); ++i) {
    if (!grid(id).waits[i].lookup) continue;
    const auto [counter, expect] = awaited(id, record, i, {});
    for (const Access& read : reads) {
      const SymbolId found = find_symbol(s_.program.symbols, read.role);
      if (!found.valid() || s_.program.symbols[found].is_list()) continue;
      e_.symbols[found.index] =
          e_.call(primitive, e_.ir.getInt32Ty(),
                  {launch_.worker, e_.load32(record, offsetof(mkrt::MkGrid, id)), counter, expect,
                   operand_address(e_, body_call(id, record), read.role),
                   e_.constant(s_.program.symbols[found].bounds.hi)});
    }
  }
}

void TaskCode::for_each_run(const Notify& notify, const std::vector<llvm::Value*>& coords,
                            std::vector<llvm::Value*>& cell,
                            const std::function<void(llvm::Value* run)>& visit) {
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

bool TaskCode::notifies_by_counter(GridId id, size_t i) const {
  return mode_ != Mode::kKernels && i != inlining_notify(id);
}

void TaskCode::emit_release(GridId id) {
  constexpr int64_t kLanes = 32;
  int64_t cells = 0;
  for (size_t i = 0; i < grid(id).notifies.size(); ++i) {
    const Notify& notify = grid(id).notifies[i];
    if (!notifies_by_counter(id, i) || keeps_log(s_, notify.event)) continue;
    const Expr run = notify.cells.empty() ? Expr(1) : notify.cells.back().size;
    cells = std::max(cells, run.is_const() ? std::min(run.constant(), kLanes) : kLanes);
  }
  if (cells > 0) e_.call("mkd_release", {launch_.worker, e_.constant(cells)});
}

std::vector<llvm::Value*> TaskCode::notify_bases(GridId id, llvm::Value* record) {
  std::vector<llvm::Value*> bases;
  for (size_t i = 0; i < grid(id).notifies.size(); ++i)
    bases.push_back(e_.load32(record, offsetof(mkrt::MkGrid, notify_base) + 4 * i));
  return bases;
}

void TaskCode::emit_notifies(GridId id, const std::vector<llvm::Value*>& bases,
                             const std::vector<llvm::Value*>& coords) {
  for (size_t i = 0; i < grid(id).notifies.size(); ++i) {
    if (!notifies_by_counter(id, i)) continue;
    const Notify& notify = grid(id).notifies[i];
    const Event& event = s_.program.events[notify.event];
    llvm::Value* base = bases[i];
    const bool logged = keeps_log(s_, notify.event);
    std::vector<llvm::Value*> cell;
    for_each_run(notify, coords, cell, [&](llvm::Value* run) {
      llvm::Value *number = cell_number(event, cell), *counter = e_.ir.CreateAdd(base, number);
      if (logged)
        return e_.call("mkd_notify_logged", {launch_.worker, counter, run, e_.value(event.expect),
                                             log_of(base, notify.event), number});
      e_.call("mkd_notify", {launch_.worker, counter, run});
    });
  }
}

std::optional<size_t> TaskCode::inlining_notify(GridId id) const {
  const GridId inlined = inline_grid_of(s_, id);
  for (size_t i = 0; inlined.valid() && i < grid(id).notifies.size(); ++i)
    if (grid(id).notifies[i].event == grid(inlined).waits[0].event) return i;
  return {};
}

// Tasks that a body takes together notify consecutive cells. The inline tasks of consecutive completed cells
// run together.
void TaskCode::notify_and_run(GridId id, llvm::Value* record, const std::vector<llvm::Value*>& bases,
                              const TaskBlock& tasks) {
  const std::optional<size_t> inlining = inlining_notify(id);
  if (!inlining) return;
  const GridId inlined = inline_grid_of(s_, id);
  const Notify& notify = grid(id).notifies[*inlining];
  const Event& event = s_.program.events[notify.event];
  llvm::Value* base = bases[*inlining];
  const char* primitive = mode_ == Mode::kKernels ? "mkd_notify_last_and_clear" : "mkd_notify_last";
  std::vector<llvm::Value*> cell;
  for_each_run(notify, coords_of(id, tasks.first), cell, [&](llvm::Value*) {
    llvm::Value* completed = e_.call(primitive, e_.ir.getInt32Ty(),
                                     {launch_.worker, e_.ir.CreateAdd(base, cell_number(event, cell)),
                                      tasks.count, e_.value(event.expect, cell)});
    if (llvm::isa<llvm::Constant>(tasks.count))
      return e_.if_then(e_.ir.CreateICmpNE(completed, e_.constant(0)),
                        [&] { run_inline(inlined, record, cell, tasks.count); });
    e_.striding_loop(e_.constant(0), tasks.count, [&](llvm::Value* i) {
      llvm::Value* ones = e_.call("mkd_ones_from", e_.ir.getInt32Ty(), {completed, i});
      llvm::Value* some = e_.ir.CreateICmpNE(ones, e_.constant(0));
      e_.if_then(some, [&] {
        std::vector<llvm::Value*> first = cell;
        if (!first.empty()) first.back() = e_.ir.CreateAdd(first.back(), i);
        run_inline(inlined, record, first, ones);
      });
      return e_.ir.CreateSelect(some, ones, e_.constant(1));
    });
  });
}

}  // namespace mkc
