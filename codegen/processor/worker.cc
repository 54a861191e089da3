// The scaffold on a worker of the processor has begin, segments, waits, notifications, tickets and stamps.
// Each function does what its namesake in codegen/device/ does.
#include "codegen/processor/wait.h"

namespace mk {

namespace {

// stamp_now() stamps the consumers' track. The loader's track stays empty, because there is no loader.
MK_INLINE void stamp_now(const Worker& w, MkStampKind kind, u32 grid, u32 task) {
  if (!mk_tracing()) return;
  const u64 bytes = sizeof(MkTrack) + (u64)w.session->trace_stamps * sizeof(MkStamp);
  AS1 MkTrack* track = (AS1 MkTrack*)(w.session->trace + thread_of(w).worker * kTracks * bytes);
  const u32 number = track->stamped++;
  if (number >= w.session->trace_stamps) return;
  AS1 MkStamp& to = ((AS1 MkStamp*)(track + 1))[number];
  to.time = time_ns(w);
  to.task = task;
  to.grid = (uint16_t)grid;
  to.kind = kind;
  to.ring = 0;
}

MK_INLINE void begin_tracks(const Worker& w) {
  if (!mk_tracing()) return;
  const u64 bytes = sizeof(MkTrack) + (u64)w.session->trace_stamps * sizeof(MkStamp);
  AS1 char* tracks = (AS1 char*)(w.session->trace + thread_of(w).worker * kTracks * bytes);
  for (u32 i = 0; i < kTracks; ++i) ((AS1 MkTrack*)(tracks + i * bytes))->stamped = 0;
}

}  // namespace

// mkd_begin_thread() fills *w at the kernel's start.
MK_BODY void mkd_begin_thread(Worker* w, AS1 const MkSession* session, AS1 const MkStep* step,
                              AS1 const MkThread* thread) {
  w->thread = 0;
  w->shared = (AS3 char*)thread->shared;
  w->session = session;
  w->launch = step;
  w->counters = (AS1 u32*)session->counters + step->serial % 2 * session->event_cells;
  w->load_step = w->known = 0;  // there is no loader
  w->stages = 0;
  w->stages_acquired = w->handed = w->told = w->segments = w->grid = w->task = 0;
  *w->gave_up_word() = 0;
  thread_of(*w).worker = thread->worker;
  thread_of(*w).ns_per_tick = thread->ns_per_tick;
  AS3 Arenas* arenas = w->arenas();
  arenas->weights = session->weights;
  arenas->workspace = session->workspace;
  arenas->caches = session->caches;
  arenas->segments = session->segments;
  arenas->grids = session->grids;
  arenas->step = step->begun;
  if (session->stream_begin != 0) {  // not so where bodies run alone
    const u32* stream_begin = (const u32*)session->stream_begin + thread->worker;
    arenas->first_segment = stream_begin[0];
    arenas->last_segment = stream_begin[1];
  }
  begin_tracks(*w);
}

MK_BODY AS3 const Arenas* mkd_arenas(Worker* w) {
  return w->arenas();
}

MK_BODY void mkd_segments_begin(Worker*) {}
MK_BODY void mkd_segments_end(Worker*) {}

// mkd_segment_begin() copies the worker's `at`-th segment and the records of its grids.
MK_BODY AS3 const SegmentAhead* mkd_segment_begin(Worker* w, u32 at) {
  SegmentAhead* ahead = plain(w->ahead(0));
  const MkGrid* grids = (const MkGrid*)w->arenas()->grids;
  ahead->segment = ((const MkSegment*)w->arenas()->segments)[at];
  ahead->grid = grids[ahead->segment.grid];
  if (ahead->segment.inline_grid != kNoGrid) ahead->inlined = grids[ahead->segment.inline_grid];
  return w->ahead(0);
}

MK_BODY void mkd_wait(Worker* w, u32 cell, u32 expected) {
  await(*w, cell, expected);
}

// Additions to counters release what was written before, so nothing is left to do here.
MK_BODY void mkd_release(Worker*, u32) {}
MK_BODY void mkd_barrier() {}

MK_BODY void mkd_notify(Worker* w, u32 cell, u32 count) {
  for (u32 i = 0; i < count; ++i) add_to(w->counters + cell + i, 1);
}

MK_BODY u32 mkd_notify_last(Worker* w, u32 cell, u32 count, u32 expected) {
  u32 completed = 0;
  for (u32 i = 0; i < count; ++i)
    if (add_to(w->counters + cell + i, 1) + 1 == expected) completed |= 1u << i;
  return completed;
}

MK_BODY u32 mkd_notify_last_and_clear(Worker* w, u32 cell, u32 count, u32 expected) {
  const u32 completed = mkd_notify_last(w, cell, count, expected);
  for (u32 i = 0; i < count; ++i)
    if ((completed >> i & 1) != 0) mk_store_release(w->counters + cell + i, 0);
  return completed;
}

MK_BODY u32 mkd_ones_from(u32 mask, u32 bit) {
  u32 ones = 0;
  while (bit + ones < 32 && (mask >> (bit + ones) & 1) != 0) ++ones;
  return ones;
}

MK_BODY void mkd_notify_logged(Worker* w, u32 cell, u32 count, u32 expected, u32 log, u32 number) {
  for (u32 i = 0; i < count; ++i) {
    if (add_to(w->counters + cell + i, 1) + 1 != expected) continue;
    const u32 entry = mk_add_relaxed(w->counters + log, 1);
    add_to(w->counters + log + 1 + entry, number + i + 1);  // the entry was 0
  }
}

MK_BODY void mkd_task_begin(Worker* w, u32 grid, u32 task) {
  w->grid = grid;
  w->task = task;
  stamp_now(*w, kTaskReached, grid, task);
}
MK_BODY void mkd_task_ready(Worker* w, u32) {
  stamp_now(*w, kTaskBegun, w->grid, w->task);
}
MK_BODY void mkd_task_end(Worker* w, u32 tasks) {
  stamp_now(*w, kTaskEnded, w->grid, w->task + tasks);
}
MK_BODY void mkd_task_left(Worker*, u32, u32) {}
MK_BODY void mkd_stamp_step(Worker* w) {
  stamp_now(*w, kStepBegun, 0, w->arenas()->step);
}

MK_BODY u32 mkd_look_up(Worker* w, u32 grid, u32 cell, u32 expected, AS1 const u32* table, u32 max) {
  w->grid = grid;
  w->task = kLookUpTask;
  await(*w, cell, expected);
  return min(*table, max);
}

// mkd_stream() says where the streamed operand of the tasks to come lies.
MK_BODY void mkd_stream(Worker* w, AS1 const char* weights) {
  thread_of(*w).streamed = plain(weights);
}

MK_BODY u32 mkd_next_queued(Worker* w, u32 tickets) {
  return mk_add_relaxed(w->counters + tickets, 1);
}

MK_BODY u32 mkd_next_ready(Worker* w, u32 tickets, u32 tasks, u32 grid, u32 log, u32 per_cell) {
  const u32 ticket = mk_add_relaxed(w->counters + tickets, 1);
  if (ticket >= tasks) return kLaunchOver;
  w->grid = grid;
  w->task = ticket;
  await(*w, log + 1 + ticket / per_cell, 1);
  const u32 entry = mk_load_relaxed(w->counters + log + 1 + ticket / per_cell);
  return entry == 0 ? kLaunchOver : (entry - 1) * per_cell + ticket % per_cell;  // 0 only after a fault
}

}  // namespace mk
