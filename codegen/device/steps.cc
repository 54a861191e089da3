// Workers go from one step of a launch to the next by themselves (docs/events.md).
//
// Consumers of all workers meet between steps. The last worker to arrive makes the next step from the sampled
// tokens, in the memory of the step before. All workers go on then. The loader does not wait for that.
// Weights stream the same way for each step if one pass over them serves all tokens, and requests only leave
// during a launch. The ring is therefore full when a step begins.
#include "codegen/device/bodies.h"
#include "codegen/device/loaders.h"

namespace mk {
namespace {

// StepSymbols are indices of symbols in MkStep::symbol.
struct StepSymbols {
  u32 tokens, requests, logit_rows;
};

// use_bank() takes the counters of the `number`-th step of the launch.
MK_INLINE void use_bank(Worker& w, AS1 const MkSession* session, AS1 const MkStep* step, u32 number) {
  w.counters = (AS1 u32*)session->counters + (step->serial + number) % 2 * session->event_cells;
}

// goes_on() tells whether a request goes on after the `sampled`-th token of the launch. The token takes
// position `length`.
MK_INLINE bool goes_on(AS1 const MkSample& sample, u32 sampled, u32 length) {
  if (sampled >= sample.limit || length >= sample.positions) return false;
  const u32 id = ((AS1 const u32*)sample.sampled)[sampled] & ~kNotFinite;
  AS1 const u32* stop_ids = (AS1 const u32*)sample.stop_ids;
  for (u32 i = 0; i < sample.stops; ++i)
    if (stop_ids[i] == id) return false;
  return true;
}

// make_step() makes step `next` in the memory of the step before, whose readers have all ended, and lets it
// begin.
MK_INLINE void make_step(const Worker& w, AS1 MkStep* step, StepSymbols symbols, u32 next) {
  const u32 requests = (u32)step->symbol[symbols.requests], b = w.thread;
  AS1 u32* lists = (AS1 u32*)step->lists;
  AS1 u32 *rows = lists + kRowsList * kMaxRequests, *lengths = lists + kLengthsList * kMaxRequests,
          *first_rows = lists + kFirstRowsList * kMaxRequests,
          *launch_requests = (AS1 u32*)step->launch_request, *page_begin = (AS1 u32*)step->page_begin;
  AS3 u32* stays = (AS3 u32*)w.scratch();
  u32 launch_request = 0, length = 0, page = 0;
  if (b < requests) {
    launch_request = launch_requests[b], length = lengths[b], page = page_begin[b];
    stays[b] = goes_on(((AS1 const MkSample*)step->samples)[launch_request], next, length);
  }
  consumer_barrier();       // all values of the step before have been read
  u32 place = 0, left = 0;  // both at most `requests`, whatever memory holds
  for (u32 i = 0; i < requests; ++i) {
    place += i < b && stays[i] != 0 ? 1 : 0;
    left += stays[i] != 0 ? 1 : 0;
  }
  if (b < requests && stays[b]) {
    ((AS1 u32*)step->input[kTokensInput])[place] =
        ((AS1 const u32*)((AS1 const MkSample*)step->samples)[launch_request].sampled)[next] & ~kNotFinite;
    ((AS1 u32*)step->input[kPositionsInput])[place] = length;
    rows[place] = 1;
    lengths[place] = length + 1;
    first_rows[place] = place;
    launch_requests[place] = launch_request;
    page_begin[place] = page;
  }
  if (b == 0)
    step->symbol[symbols.tokens] = step->symbol[symbols.requests] = step->symbol[symbols.logit_rows] =
        (int32_t)left;
  consumer_barrier();
  if (b == 0) mk_store_release(&step->begun, left > 0 ? next : kLaunchOver);
}

// arrived_of() is the address of `arrived`, computed where it is used. The address is the same for all steps
// of a launch. LLVM would hoist it out of their loop, and it would hold two registers through every task.
MK_INLINE AS1 u32* arrived_of(AS1 MkStep* step) {
  u32 at = __builtin_offsetof(MkStep, arrived);
  asm volatile("" : "+r"(at));
  return (AS1 u32*)((AS1 char*)step + at);
}

// join() waits for the step that the loader is at, and takes its symbols.
MK_INLINE bool join(Worker& w, AS1 const MkStep* step, u32* symbols) {
  if (w.known == w.load_step) return true;
  if (w.lane() == 0) poll(w, w.begun(), kStepCell, w.load_step, 0);
  mk_warp_sync();
  if (mk_warp_any(over(w))) {
    w.give_up();  // stages that the loader leaves out would be missing between those of other grids
    return false;
  }
  w.known = w.load_step;
  MK_UNROLL
  for (u32 i = 0; i < kMaxSymbols; ++i) symbols[i] = (u32)step->symbol[i];
  return true;
}

}  // namespace

// mkd_step_begin() begins a step. Consumer threads call it before the step's tasks. The function clears the
// counters of the next step's bank, which nobody reads in this step.
MK_BODY void mkd_step_begin(Worker* w, AS1 const MkSession* session, AS1 const MkStep* step) {
  launder_thread(*w);
  const u32 number = w->arenas()->step;
  use_bank(*w, session, step, number);
  stamp(*w, kStepBegun, 0, number);
  mk_spoil((AS3 char*)w->list(0), kListBytes);
  if (w->thread < kMaxSymbols) w->arenas()->symbol[w->thread] = (u32)step->symbol[w->thread];
  const u32 cells = session->event_cells;
  AS1 u32* next = (AS1 u32*)session->counters + (step->serial + number + 1) % 2 * cells;
  for (u32 i = mk_worker() * kConsumerThreads + w->thread; i < cells;
       i += session->workers * kConsumerThreads)
    next[i] = 0;
  consumer_barrier();  // the symbols have been written
}

// mkd_next_step() tells whether there is another step, which has then begun. Consumer threads call it after a
// step's tasks. A worker arrives once its loader has looked up all that it needs of this step.
//
// The wait here lasts twice the timeout. A worker that has arrived lately tells more about a fault than a
// worker that waits for it here.
MK_BODY bool mkd_next_step(Worker* w, AS1 const MkSession* session, AS1 MkStep* step, u32 tokens_symbol,
                           u32 requests_symbol, u32 logit_rows_symbol) {
  const u32 next = w->arenas()->step + 1;
  if (next >= step->steps) return false;
  launder_thread(*w);
  consumer_barrier();
  if (w->thread == 0) {
    wait_phase(*w, w->loaded(), (next - 1) % 2, kRingCell, w->stages_acquired);
    *w->arrived_last() = mk_add_acq_rel(arrived_of(step), 1) + 1 == session->workers * next;
  }
  consumer_barrier();
  if (*w->arrived_last()) make_step(*w, step, {tokens_symbol, requests_symbol, logit_rows_symbol}, next);
  if (w->thread == 0) {
    poll(*w, w->begun(), kStepCell, next, 2 * w->timeout_ns());
    *w->goes_on() = !over(*w);
    w->arenas()->step = next;
  }
  consumer_barrier();
  return *w->goes_on();
}

// mkd_leave_next_step() serves mode `kernels`. Consumer threads call it at the end of a step's last kernel.
// The last worker to arrive makes the step that the host launches next. That step has no requests if all have
// ended.
MK_BODY void mkd_leave_next_step(Worker* w, AS1 const MkSession* session, AS1 MkStep* step, u32 tokens_symbol,
                                 u32 requests_symbol, u32 logit_rows_symbol) {
  const u32 next = mk_load_relaxed(&step->begun) + 1;  // 0 once all requests have ended
  if (next == 0 || next >= step->steps) return;
  consumer_barrier();
  if (w->thread == 0) *w->arrived_last() = mk_add_acq_rel(&step->arrived, 1) + 1 == session->workers * next;
  consumer_barrier();
  if (*w->arrived_last()) make_step(*w, step, {tokens_symbol, requests_symbol, logit_rows_symbol}, next);
}

// mkd_loader_join() waits for the step before anything that depends on it, and gives its symbols. The result
// tells the loader whether the step has begun.
MK_BODY bool mkd_loader_join(Worker* w, AS1 const MkStep* step, u32* symbols) {
  return join(*w, step, symbols);
}

// mkd_loader_next_step() tells the loader, after a step's segments, whether there is another step to load
// for. Weights pass through the ring in the same way for up to kSameStreamTokens tokens. The loader of a step
// with no more tokens goes on before the next step has begun, which never has more.
MK_BODY bool mkd_loader_next_step(Worker* w, AS1 const MkSession* session, AS1 const MkStep* step,
                                  u32* symbols, u32 tokens_symbol) {
  if (!join(*w, step, symbols) || w->load_step + 1 >= step->steps) return false;
  mk_mbar_arrive(w->loaded());
  ++w->load_step;
  use_bank(*w, session, step, w->load_step);
  return symbols[tokens_symbol] <= kSameStreamTokens || join(*w, step, symbols);
}

}  // namespace mk
