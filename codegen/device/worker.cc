// The kernel's scaffold has parts that read better as C++ than as IRBuilder calls.
#include "codegen/device/bodies.h"
#include "codegen/device/loaders.h"

namespace mk {

// mkd_begin() fills *w and initialises the barriers. All threads of the worker call it at the kernel's start.
MK_BODY void mkd_begin(Worker* w, AS1 const MkSession* session, AS1 const MkStep* step, u32 stages) {
  w->thread = mk_thread();
  w->shared = mk_shared();
  w->session = session;
  w->launch = step;
  w->counters = (AS1 u32*)session->counters + step->serial % 2 * session->event_cells;
  w->load_step = step->begun;  // 0, except in mode `kernels`, which launches later steps anew
  w->known = ~0u;
  w->stages = stages;
  w->stages_acquired = 0;
  w->handed = 0;
  w->told = 0;
  w->segments = 0;
  w->grid = 0;
  w->task = 0;
  if (w->thread == 0) {
    *w->gave_up_word() = 0;
    for (u32 stage_index = 0; stage_index < stages; ++stage_index) {
      mk_mbar_init(w->full(stage_index), 1);
      mk_mbar_init(w->empty(stage_index), kConsumerWarps);
    }
    mk_mbar_init(w->loaded(), kWarpLanes);
    mk_mbar_init(w->listed(), 1);
    for (u32 entry = 0; entry < kHandedTasks; ++entry) {
      mk_mbar_init(w->handed_full(entry), 1);
      mk_mbar_init(w->handed_empty(entry), 1);
    }
    for (u32 buffer = 0; buffer < 4; ++buffer) mk_mbar_init(w->brought(buffer), 1);
    mk_fence_mbar_init();
    AS3 Arenas* arenas = w->arenas();
    arenas->weights = session->weights;
    arenas->workspace = session->workspace;
    arenas->caches = session->caches;
    arenas->segments = session->segments;
    arenas->grids = session->grids;
    arenas->step = step->begun;
    if (session->stream_begin != 0) {  // not so where bodies run alone
      AS1 const u32* stream_begin = (AS1 const u32*)session->stream_begin + mk_worker();
      arenas->first_segment = stream_begin[0];
      arenas->last_segment = stream_begin[1];
    }
  }
  begin_track(*w);
  mk_barrier(0, kWorkerThreads);
}

// mkd_arenas() may be called by all threads at any time.
MK_BODY AS3 const Arenas* mkd_arenas(Worker* w) {
  return w->arenas();
}

// mkd_wait() returns once the cell has `expected` notifications, or after a fault. All consumer threads call
// it, and one thread polls. The poll's acquire and the barrier order everything the notifiers wrote before
// what any thread reads next.
MK_BODY void mkd_wait(Worker* w, u32 cell, u32 expected) {
  if (w->thread == 0) poll(*w, cell, expected);
  consumer_barrier();
}

// mkd_release() is called by consumer threads after consumer_barrier(), once for all notifications that
// follow. The fence waits until all writes so far are visible everywhere. A release at each notification
// would wait for the additions before it. `cells` is the most cells of any mkd_notify() that follows. `cells`
// is a warp's lanes where that number is unknown or greater.
MK_BODY void mkd_release(Worker* w, u32 cells) {
  if (w->thread < cells) mk_fence_release();
}

// mkd_notify() adds 1 to each of `count` cells. Consumer threads call it after mkd_release().
MK_BODY void mkd_notify(Worker* w, u32 cell, u32 count) {
  if (w->warp() != 0) return;
  for (u32 i = w->lane(); i < count; i += kWarpLanes) mk_red_relaxed(w->counters + cell + i, 1);
}

// mkd_notify_last() adds 1 to each of `count` cells, at most as many as a stage has strips. Consumer threads
// call it after consumer_barrier(). Bit i of the result tells whether this addition completed cell i. The
// caller may then go on as the waiter of these cells.
MK_BODY u32 mkd_notify_last(Worker* w, u32 cell, u32 count, u32 expected) {
  if (w->warp() == 0) {
    const u32 i = w->lane();
    const bool last = i < count && mk_add_acq_rel(w->counters + cell + i, 1) + 1 == expected;
    const u32 completed = (u32)mk_warp_sum(last ? (f32)(1u << i) : 0.0f);
    if (i == 0) *w->arrived_last() = completed;
  }
  consumer_barrier();
  return *w->arrived_last();
}

// mkd_notify_last_and_clear() also clears the cells that it completes, where no later launch clears them.
MK_BODY u32 mkd_notify_last_and_clear(Worker* w, u32 cell, u32 count, u32 expected) {
  const u32 completed = mkd_notify_last(w, cell, count, expected);
  if (w->thread < count && (completed >> w->thread & 1) != 0)
    mk_store_release(w->counters + cell + w->thread, 0);
  return completed;
}

// mkd_ones_from() counts the bits of the mask that are set from `bit` on without a gap.
MK_BODY u32 mkd_ones_from(u32 mask, u32 bit) {
  u32 ones = 0;
  while ((mask >> (bit + ones) & 1) != 0) ++ones;
  return ones;
}

// mkd_notify_logged() adds 1 to each of `count` cells, from cell `number` of its event on. Consumer threads
// call it after consumer_barrier(). Whoever completes a cell enters it in the event's log.
MK_BODY void mkd_notify_logged(Worker* w, u32 cell, u32 count, u32 expected, u32 log, u32 number) {
  for (u32 i = w->thread; i < count; i += kConsumerThreads) {
    if (mk_add_acq_rel(w->counters + cell + i, 1) + 1 != expected) continue;
    const u32 entry = mk_add_relaxed(w->counters + log, 1);
    mk_store_release(w->counters + log + 1 + entry, number + i + 1);
  }
}

MK_BODY void mkd_barrier() {
  consumer_barrier();
}

// mkd_task_begin() names the task in faults and traces, before it waits for events. Consumer threads call it.
MK_BODY void mkd_task_begin(Worker* w, u32 grid, u32 task) {
  w->grid = grid;
  w->task = task;
  if (w->lane() == 0) mk_task_begin(grid, task);
  stamp(*w, kTaskReached, grid, task);
}
// mkd_task_ready() follows the waits of a task.
MK_BODY void mkd_task_ready(Worker* w, u32 tasks) {
  stamp(*w, kTaskBegun, w->grid, w->task);
  mk_task_ready(w->grid, w->task, tasks);
}
// mkd_task_end() follows the work of `tasks` tasks, before they notify.
MK_BODY void mkd_task_end(Worker* w, u32 tasks) {
  mk_task_end(w->grid, w->task, tasks);
  stamp(*w, kTaskEnded, w->grid, w->task + tasks);
}

// mkd_task_left() spoils the scratch that the task's body alone uses. A barrier after the task comes first.
MK_BODY void mkd_task_left(Worker* w, u32 begin, u32 bytes) {
  mk_spoil(w->scratch() + begin, bytes);
}

// mkd_load_begin() and mkd_load_end() enclose what the loader brings for `count` tasks of a grid. `end` is
// the number behind the last of them.
MK_BODY void mkd_load_begin(Worker* w, u32 grid, u32 first, u32 count) {
  stamp(*w, kTaskBegun, grid, first);
  mk_load_begin(grid, first, count);
}
MK_BODY void mkd_load_end(Worker* w, u32 grid, u32 end) {
  mk_load_end();
  stamp(*w, kTaskEnded, grid, end);
}

// begin_look_up() names in faults who waits.
MK_INLINE void begin_look_up(Worker& w, u32 grid) {
  w.grid = grid;
  w.task = kLookUpTask;
}

// mkd_look_up() reads a word of a table once the cell has `expected` notifications. Consumer threads call it
// for a grid, once a segment. The result after a fault is any number up to `max`, the same for all threads.
// The first barrier of a segment keeps the word until all threads have read the one before.
MK_BODY u32 mkd_look_up(Worker* w, u32 grid, u32 cell, u32 expected, AS1 const u32* table, u32 max) {
  begin_look_up(*w, grid);
  if (w->thread == 0) {
    poll(*w, cell, expected);
    *w->found() = min(*table, max);
  }
  consumer_barrier();
  return *w->found();
}

// mkd_loader_look_up() is mkd_look_up() for the loader.
MK_BODY u32 mkd_loader_look_up(Worker* w, u32 grid, u32 cell, u32 expected, AS1 const u32* table, u32 max) {
  begin_look_up(*w, grid);
  if (w->lane() == 0) poll(*w, cell, expected);
  mk_warp_sync();
  return min(same_in_lanes(*table), max);
}

// mkd_loader_end() waits for all copies that are under way. A worker must not exit before they have reached
// its shared memory. Consumers leave filled stages behind after a fault.
MK_BODY void mkd_loader_end(Worker* w) {
  const u32 begun = w->stages_acquired;
  for (u32 i = begun > w->stages ? begun - w->stages : 0; i < begun; ++i)
    while (!mk_mbar_try_wait(w->full(i % w->stages), i / w->stages % 2)) {
    }
}

}  // namespace mk
