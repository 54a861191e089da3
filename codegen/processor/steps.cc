// Workers of the processor run several steps in one launch (docs/events.md). Each function does what its
// namesake in codegen/device/steps.cc does.
#include "codegen/processor/wait.h"

namespace mk {

namespace {

// StepPlaces are indices of symbols in MkStep::symbol.
struct StepPlaces {
  u32 tokens, requests, logit_rows;
};

// goes_on() tells whether a request goes on after the `sampled`-th token of the launch. The token takes
// position `length`.
MK_INLINE bool goes_on(const MkSample& sample, u32 sampled, u32 length) {
  if (sampled >= sample.limit || length >= sample.positions) return false;
  const u32 id = ((const u32*)sample.sampled)[sampled] & ~kNotFinite;
  const u32* stop_ids = (const u32*)sample.stop_ids;
  for (u32 i = 0; i < sample.stops; ++i)
    if (stop_ids[i] == id) return false;
  return true;
}

// make_step() makes step `next` in the memory of the step before, whose readers have all ended, and lets it
// begin.
MK_INLINE void make_step(MkStep* step, StepPlaces places, u32 next) {
  const u32 requests = (u32)step->symbol[places.requests];
  u32* lists = (u32*)step->lists;
  u32 *rows = lists + kRowsList * kMaxRequests, *lengths = lists + kLengthsList * kMaxRequests,
      *first_rows = lists + kFirstRowsList * kMaxRequests, *launch_requests = (u32*)step->launch_request,
      *page_begin = (u32*)step->page_begin;
  u32 left = 0;  // requests that go on so far; at most b, so that nothing is overwritten unread
  for (u32 b = 0; b < requests; ++b) {
    const u32 launch_request = launch_requests[b], length = lengths[b], page = page_begin[b];
    const MkSample& sample = ((const MkSample*)step->samples)[launch_request];
    if (!goes_on(sample, next, length)) continue;
    ((u32*)step->input[kTokensInput])[left] = ((const u32*)sample.sampled)[next] & ~kNotFinite;
    ((u32*)step->input[kPositionsInput])[left] = length;
    rows[left] = 1;
    lengths[left] = length + 1;
    first_rows[left] = left;
    launch_requests[left] = launch_request;
    page_begin[left] = page;
    ++left;
  }
  step->symbol[places.tokens] = step->symbol[places.requests] = step->symbol[places.logit_rows] =
      (int32_t)left;
  __atomic_exchange_n(&step->begun, left > 0 ? next : kLaunchOver, __ATOMIC_SEQ_CST);
  wake(&step->begun);
}

MK_INLINE bool arrives_last(AS1 const MkSession* session, AS1 MkStep* step, u32 next) {
  return __atomic_fetch_add((u32*)&step->arrived, 1, __ATOMIC_ACQ_REL) + 1 == session->workers * next;
}

}  // namespace

MK_BODY void mkd_step_begin(Worker* w, AS1 const MkSession* session, AS1 const MkStep* step) {
  const u32 cells = session->event_cells, workers = session->workers;
  w->counters = (AS1 u32*)session->counters + (step->serial + w->arenas()->step) % 2 * cells;
  mkd_stamp_step(w);
  for (u32 i = 0; i < kMaxSymbols; ++i) w->arenas()->symbol[i] = (u32)step->symbol[i];
  AS1 u32* next = (AS1 u32*)session->counters + (step->serial + w->arenas()->step + 1) % 2 * cells;
  const u32 from = (u32)((u64)cells * thread_of(*w).worker / workers),
            to = (u32)((u64)cells * (thread_of(*w).worker + 1) / workers);
  for (u32 i = from; i < to; ++i) next[i] = 0;
}

MK_BODY bool mkd_next_step(Worker* w, AS1 const MkSession* session, AS1 MkStep* step, u32 tokens_symbol,
                           u32 requests_symbol, u32 logit_rows_symbol) {
  const u32 next = w->arenas()->step + 1;
  if (next >= step->steps) return false;
  if (arrives_last(session, step, next))
    make_step((MkStep*)step, {tokens_symbol, requests_symbol, logit_rows_symbol}, next);
  await(*w, w->begun(), kStepCell, next, 2 * w->timeout_ns());
  w->arenas()->step = next;
  return !over(*w);
}

MK_BODY void mkd_leave_next_step(Worker*, AS1 const MkSession* session, AS1 MkStep* step, u32 tokens_symbol,
                                 u32 requests_symbol, u32 logit_rows_symbol) {
  const u32 next = mk_load_relaxed(&step->begun) + 1;  // 0 once all requests have ended
  if (next == 0 || next >= step->steps) return;
  if (arrives_last(session, step, next))
    make_step((MkStep*)step, {tokens_symbol, requests_symbol, logit_rows_symbol}, next);
}

}  // namespace mk
