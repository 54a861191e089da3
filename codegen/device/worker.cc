// The parts of the kernel's scaffold that read better as C++ than as IRBuilder calls.
#include "codegen/device/bodies.h"

namespace mk {
namespace {

// Strips [first, first + count) of a packed weight: tiles of each, bytes of its last, and how often it passes
// through the ring.
struct Strips {
  u32 first, count, tiles, tail_bytes, passes;
};

MK_INLINE void poll(const Worker& w, u32 cell, u32 expected) {
  AS1 const u32* counter = w.counters + cell;
  u64 since = 0;
  for (;;) {
    const u32 seen = mk_load_acquire(counter);
    if (seen >= expected || faulted(w)) return;
    const u64 now = mk_time_ns();
    if (since == 0) since = now;
    if (w.timeout_ns != 0 && now - since > w.timeout_ns) return record_fault(w, cell, seen, expected);
    mk_pause(counter, expected);
  }
}

// Calls load(slot, from, bytes) for every tile of the strips, as often as they are passed over, once its
// stage is free; ends once stop() says so, to all loading threads alike.
template <class Stop, class Load>
MK_INLINE void stream(Worker& w, AS1 const char* weights, const Strips& strips, Stop stop, Load load) {
  const u64 strip_bytes = (u64)(strips.tiles - 1) * kStageBytes + strips.tail_bytes;
  for (u32 strip = 0; strip < strips.count; ++strip)
    for (u32 pass = 0; pass < strips.passes; ++pass) {
      AS1 const char* from = weights + (strips.first + strip) * strip_bytes;
      for (u32 left = strips.tiles; left > 0; --left, ++w.stage) {
        const u32 slot = w.stage % w.stages;
        wait_phase(w, w.empty(slot), (w.stage / w.stages + 1) % 2);
        if (stop()) return;
        const u32 bytes = left == 1 ? strips.tail_bytes : kStageBytes;
        load(slot, from, bytes);
        from += bytes;
      }
    }
}

}  // namespace

// All threads of the worker, at the kernel's start: fills *w, initialises the barriers, clears the counters
// of the next launch's bank (nobody reads them in this one). `loaders`: threads of the loader warp that load.
MK_BODY void mkd_begin(Worker* w, AS1 const MkSession* session, AS1 const MkStep* step, u32 stages,
                       u32 loaders) {
  w->thread = mk_thread();
  w->shared = mk_shared();
  w->fault = (AS1 MkFault*)session->fault;
  w->timeout_ns = step->timeout_ns;
  w->stages = stages;
  w->stage = 0;
  w->grid = 0;
  w->task = 0;
  const u32 cells = session->event_cells;
  AS1 u32* banks = (AS1 u32*)session->counters;
  const u32 bank = step->launch % 2;
  w->counters = banks + bank * cells;
  AS1 u32* next = banks + (1 - bank) * cells;
  for (u32 i = mk_worker() * kWorkerThreads + w->thread; i < cells; i += session->workers * kWorkerThreads)
    next[i] = 0;
  if (w->thread == 0) {
    for (u32 slot = 0; slot < stages; ++slot) {
      mk_mbar_init(w->full(slot), loaders);
      mk_mbar_init(w->empty(slot), kConsumerWarps);
    }
    mk_fence_mbar_init();
  }
  mk_barrier(0, kWorkerThreads);
}

// All threads, before each segment: what is computed from the thread's number lives in registers for one
// segment only, not for the whole launch.
MK_BODY void mkd_segment_begin(Worker* w) {
  asm volatile("" : "+r"(w->thread));
}

// Consumer threads: returns once the cell has `expected` notifications, or after a fault. One thread polls;
// its acquire and the barrier order everything the notifiers wrote before what any thread reads next.
MK_BODY void mkd_wait(Worker* w, u32 cell, u32 expected) {
  if (w->thread == 0) poll(*w, cell, expected);
  consumer_barrier();
}

// Consumer threads, after consumer_barrier(): adds 1 to each of `count` cells.
MK_BODY void mkd_notify(Worker* w, u32 cell, u32 count) {
  for (u32 i = w->thread; i < count; i += kConsumerThreads) mk_add_release(w->counters + cell + i, 1);
}

// Consumer threads, after consumer_barrier(): adds 1 to the cell and tells all of them whether that completed
// it; then the caller may go on as the cell's waiter.
MK_BODY bool mkd_notify_last(Worker* w, u32 cell, u32 expected) {
  AS3 u32* last = w->arrived_last();
  if (w->thread == 0) *last = mk_add_acq_rel(w->counters + cell, 1) + 1 == expected;
  consumer_barrier();
  return *last != 0;
}

MK_BODY void mkd_barrier() {
  consumer_barrier();
}

// Names the task in faults and traces.
MK_BODY void mkd_task_begin(Worker* w, u32 grid, u32 task) {
  w->grid = grid;
  w->task = task;
  if (w->lane() == 0) mk_task_begin(grid, task);
}
MK_BODY void mkd_task_end(Worker* w) {
  if (w->lane() == 0) mk_task_end(w->grid, w->task);
}

// The loader's one thread: brings strips of a packed weight through the ring, tile by tile, waiting for
// nothing but free stages.
MK_BODY void mkd_stream_bulk(Worker* w, AS1 const char* weights, u32 first, u32 count, u32 tiles,
                             u32 tail_bytes, u32 passes) {
  stream(
      *w, weights, {first, count, tiles, tail_bytes, passes}, [&] { return faulted(*w); },
      [&](u32 slot, AS1 const char* from, u32 bytes) {
        mk_mbar_expect(w->full(slot), bytes);
        mk_bulk_load(w->stage_at(slot), from, bytes, w->full(slot));
      });
}

// The same by all lanes of the loader warp, for targets without a copy engine.
MK_BODY void mkd_stream_async(Worker* w, AS1 const char* weights, u32 first, u32 count, u32 tiles,
                              u32 tail_bytes, u32 passes) {
  stream(
      *w, weights, {first, count, tiles, tail_bytes, passes},
      [&] { return mk_warp_max(faulted(*w) ? 1.0f : 0.0f) > 0; },
      [&](u32 slot, AS1 const char* from, u32 bytes) {
        for (u32 at = w->lane() * 16; at < bytes; at += kWarpLanes * 16)
          mk_async_load16(w->stage_at(slot) + at, from + at);
        mk_async_arrive(w->full(slot));
      });
}

// The loading threads, at the end: after a fault consumers leave stages behind, and a worker must not
// exit while copies into its shared memory are under way.
MK_BODY void mkd_loader_end(Worker* w) {
  const u32 begun = w->stage;
  for (u32 i = begun > w->stages ? begun - w->stages : 0; i < begun; ++i)
    while (!mk_mbar_try_wait(w->full(i % w->stages), i / w->stages % 2)) {
    }
}

}  // namespace mk
