// A worker is one thread block: 8 consumer warps, which run task bodies, and one loader warp, which fills the
// ring. Task bodies and the kernel's scaffold share its shared memory, its ring of stages and its fault
// handling. Everything is forced inline, so that struct Worker lives in registers.
#pragma once

#include "codegen/device/mk.h"
#include "runtime/abi/packing.h"

#define MK_INLINE __attribute__((always_inline)) inline
// MK_UNROLL precedes loops over arrays that must stay in registers.
#define MK_UNROLL _Pragma("clang loop unroll(full)")
// MK_ROLLED precedes loops that must stay loops.
#define MK_ROLLED _Pragma("clang loop unroll(disable)")
#define MK_BODY extern "C" __attribute__((always_inline, used))

namespace mk {

using namespace mkrt;

constexpr u32 kWarpLanes = 32;
constexpr u32 kConsumerBarrier = 1;  // named barrier of the consumer warps
constexpr u32 kBarrierBytes = 1888;  // bytes behind the stages: mbarriers, words that threads share, segments
constexpr u32 kListBytes = 7328;  // bytes behind the barriers: lists of the step, of row blocks and of tasks
constexpr u32 kScratchBytes = 26624;  // bytes behind the lists: a task's own, free at its end
constexpr u32 kMaxStages = 16;
constexpr u32 kChunkBytes = 16;  // bytes of one vector load or asynchronous copy
constexpr u32 kNoGrid = ~0u;
constexpr u32 kHandedTasks = 16;  // most tasks that one role has claimed and the other has not begun
constexpr u32 kPlaces = 16;       // groups of 16 positions in a KV tile
constexpr u32 kMaxTokens = 256;   // most tokens T of a step

// Arenas are what segments need of the session and of the step.
struct alignas(16) Arenas {
  u64 weights, workspace, caches, segments, grids;  // as in MkSession
  u32 symbol[kMaxSymbols];                          // symbols of the consumers' step, as in MkStep
  u32 first_segment, last_segment;                  // of the worker's stream, which ends before the last one
  u32 step;                                         // the step of the launch that the consumers are at
};

// SegmentAhead is a segment of a role (consumers or loader), the next segment, and the first one's grid.
// Consumers also have the grid that runs inline in the first one.
struct SegmentAhead {
  MkSegment segment, next;
  MkGrid grid, inlined;
};
constexpr u32 kLoaderAheadBytes = __builtin_offsetof(SegmentAhead, inlined);
constexpr u32 kAheadBytes = 2 * sizeof(SegmentAhead) + 2 * kLoaderAheadBytes;

// Worker is the state of one thread of a worker. Shared memory holds stages, barriers, lists and scratch, in
// this order.
struct Worker {
  u32 thread;  // thread number in the worker
  AS3 char* shared;
  AS1 const MkSession* session;
  AS1 const MkStep* launch;
  AS1 u32* counters;  // counters of this step's bank
  u32 load_step;      // the step of the launch that the loader is at
  u32 known;          // the newest step that the loader knows to have begun
  u32 stages;
  u32 stages_acquired;  // by this thread's role so far
  u32 handed;           // tasks passed between the roles so far, as this thread's role counts them
  u32 told;             // tasks that one consumer thread claimed and told the others
  u32 segments;         // segments begun so far by this thread's role
  u32 grid;             // the grid that runs now, for faults
  u32 task;

  // Values that only waits need are no members, because members would fill registers. Consumers keep the
  // number of their step in Arenas for that reason.
  MK_INLINE AS1 MkFault* fault() const { return (AS1 MkFault*)session->fault; }
  MK_INLINE AS1 const u32* begun() const { return &launch->begun; }
  MK_INLINE u64 timeout_ns() const { return launch->timeout_ns; }

  MK_INLINE u32 lane() const { return thread % kWarpLanes; }
  MK_INLINE u32 warp() const { return thread / kWarpLanes; }
  MK_INLINE AS3 char* stage_at(u32 stage_index) const { return shared + stage_index * kStageBytes; }
  MK_INLINE AS3 u64* full(u32 stage_index) const {
    return (AS3 u64*)(shared + stages * kStageBytes) + stage_index;
  }
  MK_INLINE AS3 u64* empty(u32 stage_index) const { return full(kMaxStages + stage_index); }
  MK_INLINE AS3 u64* loaded() const { return full(2 * kMaxStages); }  // one phase a step
  MK_INLINE AS3 u64* listed() const { return loaded() + 1; }          // one phase a step: lists are made
  MK_INLINE AS3 u64* handed_full(u32 entry) const { return listed() + 1 + entry; }
  MK_INLINE AS3 u64* handed_empty(u32 entry) const { return handed_full(kHandedTasks + entry); }
  // brought() is the barrier of one of the role's two buffers of segments ahead.
  MK_INLINE AS3 u64* brought(u32 buffer) const {
    return handed_full(2 * kHandedTasks) + thread / kConsumerThreads * 2 + buffer;
  }
  // place() is where a group of 16 positions lies in a cache. The loader alone uses it.
  MK_INLINE AS3 u64* place(u32 group) const { return handed_full(2 * kHandedTasks) + 4 + group; }
  MK_INLINE AS3 u32* handed_task(u32 entry) const { return (AS3 u32*)place(kPlaces) + entry; }
  MK_INLINE AS3 u32* told_task(u32 entry) const { return handed_task(kHandedTasks) + entry; }
  MK_INLINE AS3 u32* arrived_last() const { return told_task(2); }
  MK_INLINE AS3 u32* found() const { return arrived_last() + 1; }  // the result of a lookup
  MK_INLINE AS3 u32* goes_on() const { return arrived_last() + 2; }
  // gave_up_word() is set once a thread of the worker has given up a wait after a fault. Nobody knows then
  // what stages, tables and lists hold. Several threads may set it while others read it.
  MK_INLINE AS3 u32* gave_up_word() const { return arrived_last() + 3; }
  MK_INLINE bool gave_up() const { return __atomic_load_n(gave_up_word(), __ATOMIC_RELAXED) != 0; }
  MK_INLINE void give_up() const { __atomic_store_n(gave_up_word(), 1, __ATOMIC_RELAXED); }
  // stamped() and in_ring() belong to the thread that stamps a traced kernel. stamped() counts its stamps so
  // far. in_ring() sums the time that its task has waited for the ring.
  MK_INLINE AS3 u32* stamped() const { return arrived_last() + 4 + thread / kConsumerThreads; }
  MK_INLINE AS3 u32* in_ring() const { return stamped() + kTracks; }
  MK_INLINE AS3 Arenas* arenas() const {
    return (AS3 Arenas*)(shared + stages * kStageBytes + kBarrierBytes - sizeof(Arenas));
  }
  // ahead() has two buffers of the consumers, then two of the loader.
  MK_INLINE AS3 SegmentAhead* ahead(u32 buffer) const {
    const u32 at = thread < kConsumerThreads ? buffer * (u32)sizeof(SegmentAhead)
                                             : 2 * (u32)sizeof(SegmentAhead) + buffer * kLoaderAheadBytes;
    return (AS3 SegmentAhead*)((AS3 char*)arenas() - kAheadBytes + at);
  }
  MK_INLINE AS3 u32* list(u32 word) const {
    return (AS3 u32*)(shared + stages * kStageBytes + kBarrierBytes) + word;
  }
  MK_INLINE AS3 char* scratch() const { return shared + stages * kStageBytes + kBarrierBytes + kListBytes; }
};

static_assert((2 * kMaxStages + 2 + 2 * kHandedTasks + 4 + kPlaces) * sizeof(u64) +
                  (kHandedTasks + 2 + 4 + 2 * kTracks) * sizeof(u32) + kAheadBytes + sizeof(Arenas) <=
              kBarrierBytes);

// launder_thread() hides the thread's number from LLVM. Values computed from it then live up to the next call
// only. LLVM would otherwise hoist them out of the loops over segments and steps, and they would live for the
// whole launch.
MK_INLINE void launder_thread(Worker& w) {
  asm volatile("" : "+r"(w.thread));
}

MK_INLINE void consumer_barrier() {
  mk_barrier(kConsumerBarrier, kConsumerThreads);
}
MK_INLINE bool faulted(const Worker& w) {
  return mk_load_relaxed(&w.fault()->state) != 0;
}

// over() tells whether the launch has ended, early or by a fault. Other threads may not have seen it yet.
MK_INLINE bool over(const Worker& w) {
  return faulted(w) || mk_load_relaxed(w.begun()) == kLaunchOver;
}

// record_fault() records the first fault of the launch and drops every later one. `worker` is the number of
// the worker.
MK_INLINE void record_fault(const Worker& w, u32 worker, u32 cell, u32 seen, u32 expected) {
  AS1 MkFault* fault = w.fault();
  if (mk_cas_relaxed(&fault->state, 0, 1) != 0) return;
  fault->worker = worker;
  fault->grid = w.grid;
  fault->task = w.task;
  fault->cell = cell;
  fault->seen = seen;
  fault->expected = expected;
  mk_store_release(&fault->state, 2);
}

// kPollsAtOnce is the number of polls between two checks for faults and deadlines. A check reads through
// pointers and takes as long as some polls. A notification would go unseen meanwhile.
constexpr u32 kPollsAtOnce = 8;

// gives_up() tells whether a wait is given up; `since` is when it began (0: now). A wait beyond its deadline
// is a fault. Another fault ends a wait, too. The worker has given up in both cases. `cell`, `seen` and
// `expected` describe a fault of this wait.
MK_INLINE bool gives_up(const Worker& w, u64& since, u64 timeout_ns, u32 cell, u32 seen, u32 expected) {
  const u64 now = mk_time_ns();
  if (since == 0) since = now;
  const bool late = timeout_ns != 0 && now - since > timeout_ns;
  if (!late && !faulted(w)) return false;
  if (late) record_fault(w, mk_worker(), cell, seen, expected);
  w.give_up();
  return true;
}

// poll() waits until the counter is at least `expected`. poll() falls through after a fault, and the worker
// has given up. `cell` names the counter in faults.
MK_INLINE void poll(const Worker& w, AS1 const u32* counter, u32 cell, u32 expected, u64 timeout_ns) {
  u64 since = 0;
  for (;;) {
    u32 seen = 0;
    MK_ROLLED
    for (u32 i = 0; i < kPollsAtOnce; ++i) {
      seen = mk_load_acquire(counter);
      if (seen >= expected) return;
    }
    if (gives_up(w, since, timeout_ns, cell, seen, expected)) return;
    mk_pause(counter, expected);
  }
}
MK_INLINE void poll(const Worker& w, u32 cell, u32 expected) {
  poll(w, w.counters + cell, cell, expected, w.timeout_ns());
}

// try_phase() tells whether the phase is over, by some tries. Each try suspends the thread for a while.
MK_INLINE bool try_phase(AS3 u64* bar, u32 parity) {
  constexpr u32 kTriesAtOnce = 4;
  MK_ROLLED
  for (u32 i = 0; i < kTriesAtOnce; ++i)
    if (mk_mbar_try_wait(bar, parity)) return true;
  return false;
}

// wait_phase() waits for the phase. wait_phase() falls through after a fault, so that control flow stays
// uniform to the end. `cell` and `seen` describe a fault of this wait.
MK_INLINE void wait_phase(const Worker& w, AS3 u64* bar, u32 parity, u32 cell, u32 seen) {
  u64 since = 0;
  while (!try_phase(bar, parity))
    if (gives_up(w, since, w.timeout_ns(), cell, seen, 0)) return;
}

// stamps() tells whether this thread stamps a traced kernel for its role. track_of() is where the stamps go.
MK_INLINE bool stamps(const Worker& w) {
  return mk_tracing() && w.thread % kConsumerThreads == 0;
}
MK_INLINE AS1 MkTrack* track_of(const Worker& w) {
  const u64 bytes = sizeof(MkTrack) + (u64)w.session->trace_stamps * sizeof(MkStamp);
  return (AS1 MkTrack*)(w.session->trace + (mk_worker() * kTracks + w.thread / kConsumerThreads) * bytes);
}

// begin_track() empties the track of this thread's role for this launch. All threads call it.
MK_INLINE void begin_track(const Worker& w) {
  if (!stamps(w)) return;
  *w.stamped() = 0;
  track_of(w)->stamped = 0;
}

MK_INLINE void stamp(const Worker& w, MkStampKind kind, u32 grid, u32 task) {
  if (!stamps(w)) return;
  const u64 now = mk_stamp_time();
  const u32 number = (*w.stamped())++;
  AS1 MkTrack* track = track_of(w);
  track->stamped = number + 1;
  if (kind == kTaskBegun) *w.in_ring() = 0;
  if (number >= w.session->trace_stamps) return;
  AS1 MkStamp& to = ((AS1 MkStamp*)(track + 1))[number];
  to.time = now;
  to.task = task;
  to.grid = (uint16_t)grid;
  to.kind = kind;
  to.ring = kind == kTaskEnded ? *w.in_ring() : 0;
}

// ring_wait_begin() and ring_wait_end() enclose a wait for a stage of the ring. `since` is when the wait
// began, or 0 if the stage is ready or the kernel is not traced.
MK_INLINE u64 ring_wait_begin(const Worker& w, AS3 u64* bar, u32 parity) {
  return !stamps(w) || mk_mbar_test(bar, parity) ? 0 : mk_stamp_time();
}
MK_INLINE void ring_wait_end(const Worker& w, u64 since) {
  if (since != 0) *w.in_ring() += (u32)(mk_stamp_time() - since);
}

// acquire_stage() waits for the next filled stage, or the stage `ahead` of it. Every consumer warp acquires
// and releases each stage once, in order.
MK_INLINE AS3 char* acquire_stage(const Worker& w, u32 ahead = 0) {
  const u32 stage = w.stages_acquired + ahead, stage_index = stage % w.stages, parity = stage / w.stages % 2;
  const u64 since = mk_tracing() ? ring_wait_begin(w, w.full(stage_index), parity) : 0;
  wait_phase(w, w.full(stage_index), parity, kRingCell, stage);
  ring_wait_end(w, since);
  return w.stage_at(stage_index);
}
MK_INLINE void release_stage(Worker& w) {
  mk_warp_sync();
  if (w.lane() == 0) {
    mk_spoil_last(w.stage_at(w.stages_acquired % w.stages), kStageBytes);
    mk_mbar_arrive(w.empty(w.stages_acquired % w.stages));
  }
  ++w.stages_acquired;
}

// release_written_stage() releases a stage that threads have written. The next write to it may be a bulk copy
// of the async proxy, so a proxy fence comes first.
MK_INLINE void release_written_stage(Worker& w) {
  mk_warp_sync();
  if (w.lane() == 0) mk_fence_proxy_async();
  release_stage(w);
}

MK_INLINE constexpr u32 min(u32 a, u32 b) {
  return a < b ? a : b;
}

// as_f32() takes its argument by value. clang 22's __builtin_bit_cast of a vector's element takes element 0
// whatever the index.
MK_INLINE f32 as_f32(u32 bits) {
  return __builtin_bit_cast(f32, bits);
}

}  // namespace mk
