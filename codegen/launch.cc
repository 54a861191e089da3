#include "codegen/launch.h"

#include <cstddef>

#include "codegen/device/bodies.h"
#include "codegen/operands.h"

namespace mkc {

static_assert(kMaxRing == mk::kMaxStages);

LaunchCode::LaunchCode(Emitter& e, const Schedule& schedule, const StepLists& lists, const Engines& engines,
                       LaunchValues& launch)
    : e_(e), s_(schedule), lists_(lists), engines_(engines), launch_(launch) {
  e_.element = [this](SymbolId list, llvm::Value* index) {
    return e_.call("mkd_element", e_.ir.getInt32Ty(), {launch_.worker, e_.constant(lists_.at(list)), index});
  };
}

void LaunchCode::load(llvm::Value* session, llvm::Value* step) {
  launch_.worker = e_.local(sizeof(mk::Worker));
  launch_.bases = {nullptr, nullptr, nullptr, session, step};
  if (engines_.loader) {
    e_.call("mkd_begin", {launch_.worker, session, step, e_.constant(s_.ring.stages)});
  } else {
    llvm::Value* thread = e_.function->getArg(e_.function->arg_size() - 1);
    e_.call("mkd_begin_thread", {launch_.worker, session, step, thread});
    launch_.worker_index = e_.load32(thread, offsetof(mkrt::MkThread, worker));
  }
  launch_.arenas = e_.call("mkd_arenas", e_.shared_ptr, {launch_.worker});
  if (engines_.loader) launch_.worker_index = e_.call("mk_worker", e_.ir.getInt32Ty(), {});
}

void LaunchCode::load_values() {
  Bases& bases = launch_.bases;
  bases.weights = e_.load_ptr(launch_.arenas, offsetof(mk::Arenas, weights));
  bases.workspace = e_.load_ptr(launch_.arenas, offsetof(mk::Arenas, workspace));
  bases.caches = e_.load_ptr(launch_.arenas, offsetof(mk::Arenas, caches));
  e_.symbols.clear();
  uint32_t given = 0;  // index in the manifest's symbols
  for (const Symbol& s : s_.program.symbols) {
    const bool is_given = !s.routed && !s.cut;
    e_.symbols.push_back(is_given && !s.is_list() ? e_.load32(launch_.symbols, 4 * given) : nullptr);
    given += is_given ? 1 : 0;
  }
  if (!lists_.blocks) return;
  // The values below are valid for consumers, which make the lists, and for loaders that have waited for the
  // lists.
  llvm::Value* requests = e_.value(lists_.before_last->rows);
  const auto element = [&](uint32_t list, llvm::Value* index) {
    return e_.call("mkd_element", e_.ir.getInt32Ty(), {launch_.worker, e_.constant(list), index});
  };
  const RowBlocks& blocks = *lists_.blocks;
  e_.symbols[blocks.count.index] =
      e_.ir.CreateAdd(requests, element(lists_.at(*lists_.before_last), requests));
  if (blocks.partial_positions.valid())
    e_.symbols[blocks.partial_positions.index] = element(lists_.partial_positions, e_.constant(0));
}

void LaunchCode::split(const std::function<void()>& consume, const std::function<void()>& load) {
  if (!engines_.loader) {
    consume();
    e_.ir.CreateRetVoid();
    return;
  }
  llvm::BasicBlock *consumers = e_.block("consumers"), *others = e_.block("others"),
                   *loader = e_.block("loader"), *done = e_.block("done");
  llvm::Value* thread = e_.call("mk_thread", e_.ir.getInt32Ty(), {});
  llvm::Value* in_consumers = e_.ir.CreateICmpULT(thread, e_.constant(mkrt::kConsumerThreads));
  e_.ir.CreateCondBr(in_consumers, consumers, others);
  const auto ids = s_.program.grids.ids();
  const bool moves = engines_.setmaxnreg && std::any_of(ids.begin(), ids.end(), [&](GridId id) {
                       return needs_registers(s_, id, engines_);
                     });
  e_.ir.SetInsertPoint(consumers);
  if (moves) e_.call("mk_take_registers", {});
  consume();
  e_.ir.CreateBr(done);
  e_.ir.SetInsertPoint(others);
  if (moves) e_.call("mk_leave_registers", {});
  llvm::Value* loads =
      e_.ir.CreateICmpULT(thread, e_.constant(mkrt::kConsumerThreads + mkrt::kLoaderThreads));
  e_.ir.CreateCondBr(loads, loader, done);
  e_.ir.SetInsertPoint(loader);
  load();
  e_.call("mkd_loader_end", {launch_.worker});
  e_.ir.CreateBr(done);
  e_.ir.SetInsertPoint(done);
  e_.ir.CreateRetVoid();
}

void LaunchCode::by_role(const std::function<void()>& consume, const std::function<void()>& load) {
  launch_.symbols = e_.at(launch_.bases.step, offsetof(mkrt::MkStep, symbol));
  split(
      [&] {
        make_lists();
        consume();
      },
      load);
}

void LaunchCode::each_step_by_role(const std::function<void(const Body& steps)>& around, const Body& consume,
                                   const Body& load) {
  const Bases& bases = launch_.bases;
  split(
      [&] {
        launch_.symbols = e_.at(launch_.arenas, offsetof(mk::Arenas, symbol));
        around([&] {
          each_step("mkd_next_step", next_step(), [&] {
            e_.call("mkd_step_begin", {launch_.worker, bases.session, bases.step});
            make_lists();
            consume();
          });
        });
      },
      [&] {
        launch_.symbols = e_.local(sizeof(uint32_t) * mkrt::kMaxSymbols);
        for (uint32_t i = 0; i < mkrt::kMaxSymbols; ++i)  // PTX has no undef: unset values stay live
          e_.ir.CreateStore(e_.constant(0), e_.at(launch_.symbols, 4 * i));
        in_step([] {});
        around([&] {
          each_step("mkd_loader_next_step",
                    {launch_.worker, bases.session, bases.step, launch_.symbols,
                     place_of(step_symbols(s_.program.symbols).tokens)},
                    load);
        });
      });
}

std::vector<llvm::Value*> LaunchCode::next_step() {
  const StepSymbols step = step_symbols(s_.program.symbols);
  return {launch_.worker,          launch_.bases.session,
          launch_.bases.step,      place_of(step.tokens),
          place_of(step.requests), place_of(step.logit_rows.valid() ? step.logit_rows : step.tokens)};
}

llvm::Value* LaunchCode::place_of(SymbolId symbol) {
  uint32_t given = 0;
  for (SymbolId id : s_.program.symbols.ids()) {
    if (id == symbol) break;
    given += s_.program.symbols[id].routed || s_.program.symbols[id].cut ? 0 : 1;
  }
  return e_.constant(given);
}

void LaunchCode::each_step(const char* next, const std::vector<llvm::Value*>& arguments,
                           const std::function<void()>& body) {
  llvm::BasicBlock *step = e_.block("step"), *last = e_.block("last_step");
  e_.ir.CreateBr(step);
  e_.ir.SetInsertPoint(step);
  body();
  e_.ir.CreateCondBr(e_.call(next, e_.ir.getInt1Ty(), arguments), step, last);
  e_.ir.SetInsertPoint(last);
}

void LaunchCode::in_step(const std::function<void()>& body) {
  e_.if_then(
      e_.call("mkd_loader_join", e_.ir.getInt1Ty(), {launch_.worker, launch_.bases.step, launch_.symbols}),
      body);
}

void LaunchCode::with_lists(llvm::Value* number, const std::function<void()>& body) {
  e_.if_then(e_.call("mkd_await_lists", e_.ir.getInt1Ty(), {launch_.worker, number}), body);
}

void LaunchCode::sum_rows(const RaggedRows& ragged) {
  llvm::Value *list = e_.constant(lists_.at(ragged)), *rows = e_.value(ragged.rows);
  const auto set = [&](llvm::Value* row) {
    e_.call("mkd_set_element", {launch_.worker, list, row, e_.value(ragged.extent, {row})});
  };
  if (engines_.loader) {
    llvm::Value* thread = e_.load32(launch_.worker, offsetof(mk::Worker, thread));
    e_.if_then(e_.ir.CreateICmpULT(thread, rows), [&] { set(thread); });
  } else {
    e_.loop(e_.constant(0), rows, set);
  }
  e_.call("mkd_sum_list", {launch_.worker, list, rows});
}

void LaunchCode::size_partials(const RowBlocks& blocks) {
  const Symbols& symbols = s_.program.symbols;
  const StepSymbols step = step_symbols(symbols);
  e_.call("mkd_size_partials",
          {launch_.worker, e_.constant(lists_.partial_positions), e_.constant(lists_.at(step.q_len)),
           e_.constant(lists_.at(step.kv_len)), e_.value(lists_.before_last->rows),
           e_.constant(blocks.max_rows), e_.constant(partial_slots(symbols))});
  e_.call("mkd_barrier", {});
}

void LaunchCode::cut_rows(const RowBlocks& blocks) {
  const StepSymbols step = step_symbols(s_.program.symbols);
  std::vector<llvm::Value*> arguments = {launch_.worker, e_.constant(lists_.at(*lists_.before_last)),
                                         e_.value(lists_.before_last->rows), e_.constant(blocks.max_rows)};
  for (const SymbolId given : {step.q_len, step.first_row, step.kv_len})
    arguments.push_back(e_.constant(lists_.at(given)));
  for (const SymbolId cut : {blocks.request, blocks.rows, blocks.first_row, blocks.kv_len})
    arguments.push_back(e_.constant(lists_.at(cut)));
  e_.call("mkd_cut_rows", arguments);
}

// Thread i loads or makes element i of every list, and also computes the extent of row i. No barrier is
// needed between the two. mkd_sum_list ends with a barrier.
void LaunchCode::make_lists() {
  load_values();
  for (uint32_t i = 0; i < lists_.given.size(); ++i)
    e_.call("mkd_load_list",
            {launch_.worker, launch_.bases.step, e_.constant(i), e_.constant(lists_.at(lists_.given[i])),
             e_.value(s_.program.symbols[lists_.given[i]].length)});
  if (!lists_.given.empty() && !lists_.blocks && lists_.ragged.empty()) e_.call("mkd_barrier", {});
  if (lists_.blocks) {
    sum_rows(*lists_.before_last);
    if (lists_.blocks->partial_positions.valid()) size_partials(*lists_.blocks);
    load_values();  // reads the number of blocks and the positions of a partial
    cut_rows(*lists_.blocks);
  }
  for (const RaggedRows& ragged : lists_.ragged) sum_rows(ragged);
  if (lists_.blocks && engines_.loader) e_.call("mkd_lists_made", {launch_.worker});
}

}  // namespace mkc
