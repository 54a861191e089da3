// What every task body and the kernel's scaffold share: the worker's shared memory, its ring of stages and
// its fault handling. Everything is forced inline, so the struct below lives in registers.
#pragma once

#include "codegen/device/mk.h"
#include "runtime/packing.h"

#define MK_INLINE __attribute__((always_inline)) inline
// Before loops over arrays that must stay in registers.
#define MK_UNROLL _Pragma("clang loop unroll(full)")
// Before loops that must stay loops.
#define MK_ROLLED _Pragma("clang loop unroll(disable)")
#define MK_BODY extern "C" __attribute__((always_inline, used))

namespace mk {

using namespace mkrt;

constexpr u32 kWarpLanes = 32;
constexpr u32 kConsumerBarrier = 1;  // named barrier of the consumer warps
constexpr u32 kBarrierBytes = 1888;  // behind the stages: mbarriers, words that threads share, segments
constexpr u32 kListBytes = 7328;  // behind the barriers: lists of the step, of its row blocks, and of tasks
constexpr u32 kScratchBytes = 26624;  // behind the lists; a task's own, free at its end
constexpr u32 kMaxStages = 16;
constexpr u32 kNoGrid = ~0u;
constexpr u32 kHandedTasks = 16;  // that the loader has claimed and the consumers have not begun
constexpr u32 kPlaces = 16;       // of groups of positions that a task reads of a cache
constexpr u32 kMaxTokens = 256;   // T of a step

// What segments need of the session and of the step.
struct alignas(16) Arenas {
  u64 weights, workspace, caches, segments, grids;  // as in MkSession
  u32 symbol[kMaxSymbols];                          // of the consumers' step, as in MkStep
};

// A segment of a role and the one behind it, the first one's grid and, for consumers, what that runs inline.
struct SegmentAhead {
  MkSegment segment, next;
  MkGrid grid, inlined;
};
constexpr u32 kLoaderAheadBytes = __builtin_offsetof(SegmentAhead, inlined);
constexpr u32 kAheadBytes = 2 * sizeof(SegmentAhead) + 2 * kLoaderAheadBytes;

// State of one thread of a worker. Shared memory: stages, barriers, lists, scratch.
struct Worker {
  u32 thread;  // in the worker
  AS3 char* shared;
  AS1 const MkSession* session;
  AS1 const MkStep* launch;
  AS1 u32* counters;  // this step's bank
  u32 step;           // of the launch, that this thread's role is at
  u32 known;          // of the loader: the newest step that they know to have begun
  u32 stages;
  u32 stage;     // stages acquired so far by this thread's role
  u32 handed;    // tasks that the loader handed over, likewise
  u32 told;      // tasks that one consumer thread drew and told the others
  u32 segments;  // begun so far by this thread's role
  u32 grid;      // what runs now, for faults
  u32 task;

  // What is looked at while waiting only is no state: it would fill registers.
  MK_INLINE AS1 MkFault* fault() const { return (AS1 MkFault*)session->fault; }
  MK_INLINE AS1 const u32* begun() const { return &launch->begun; }
  MK_INLINE u64 timeout_ns() const { return launch->timeout_ns; }

  MK_INLINE u32 lane() const { return thread % kWarpLanes; }
  MK_INLINE u32 warp() const { return thread / kWarpLanes; }
  MK_INLINE AS3 char* stage_at(u32 slot) const { return shared + slot * kStageBytes; }
  MK_INLINE AS3 u64* full(u32 slot) const { return (AS3 u64*)(shared + stages * kStageBytes) + slot; }
  MK_INLINE AS3 u64* empty(u32 slot) const { return full(kMaxStages + slot); }
  MK_INLINE AS3 u64* loaded() const { return full(2 * kMaxStages); }  // a phase for each step
  MK_INLINE AS3 u64* listed() const { return loaded() + 1; }          // likewise, once its lists are made
  MK_INLINE AS3 u64* handed_full(u32 slot) const { return listed() + 1 + slot; }
  MK_INLINE AS3 u64* handed_empty(u32 slot) const { return handed_full(kHandedTasks + slot); }
  // A role's: once a segment ahead is there.
  MK_INLINE AS3 u64* brought(u32 slot) const {
    return handed_full(2 * kHandedTasks) + thread / kConsumerThreads * 2 + slot;
  }
  // The loader's, of what it brings of a cache: where groups of positions lie.
  MK_INLINE AS3 u64* place(u32 group) const { return handed_full(2 * kHandedTasks) + 4 + group; }
  MK_INLINE AS3 u32* handed_task(u32 slot) const { return (AS3 u32*)place(kPlaces) + slot; }
  MK_INLINE AS3 u32* told_task(u32 slot) const { return handed_task(kHandedTasks) + slot; }
  MK_INLINE AS3 u32* arrived_last() const { return told_task(2); }
  MK_INLINE AS3 u32* found() const { return arrived_last() + 1; }  // by a lookup
  MK_INLINE AS3 u32* goes_on() const { return arrived_last() + 2; }
  // Once a thread of the worker has given up a wait, after a fault: then nobody knows what stages, tables and
  // lists hold. Several may say so, while others look.
  MK_INLINE AS3 u32* gave_up_word() const { return arrived_last() + 3; }
  MK_INLINE bool gave_up() const { return __atomic_load_n(gave_up_word(), __ATOMIC_RELAXED) != 0; }
  MK_INLINE void give_up() const { __atomic_store_n(gave_up_word(), 1, __ATOMIC_RELAXED); }
  // Of a traced kernel, for the thread that stamps: stamps so far; time waited for the ring in its task.
  MK_INLINE AS3 u32* stamped() const { return arrived_last() + 4 + thread / kConsumerThreads; }
  MK_INLINE AS3 u32* in_ring() const { return stamped() + kTracks; }
  MK_INLINE AS3 Arenas* arenas() const {
    return (AS3 Arenas*)(shared + stages * kStageBytes + kBarrierBytes - sizeof(Arenas));
  }
  // Two slots of consumers, then two of the loader.
  MK_INLINE AS3 SegmentAhead* ahead(u32 slot) const {
    const u32 at = thread < kConsumerThreads ? slot * (u32)sizeof(SegmentAhead)
                                             : 2 * (u32)sizeof(SegmentAhead) + slot * kLoaderAheadBytes;
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

// What is computed from the thread's number lives in registers up to the next call only: not for the whole
// launch, as it would be hoisted out of loops over segments and steps.
MK_INLINE void launder_thread(Worker& w) {
  asm volatile("" : "+r"(w.thread));
}

MK_INLINE void consumer_barrier() {
  mk_barrier(kConsumerBarrier, kConsumerThreads);
}
MK_INLINE bool faulted(const Worker& w) {
  return mk_load_relaxed(&w.fault()->state) != 0;
}

// Whether the launch has ended early, or by a fault. Others may not have seen it yet.
MK_INLINE bool over(const Worker& w) {
  return faulted(w) || mk_load_relaxed(w.begun()) == kLaunchOver;
}

// Records the first fault of the launch; every later one is dropped.
MK_INLINE void record_fault(const Worker& w, u32 cell, u32 seen, u32 expected) {
  AS1 MkFault* fault = w.fault();
  if (mk_cas_relaxed(&fault->state, 0, 1) != 0) return;
  fault->worker = mk_worker();
  fault->grid = w.grid;
  fault->task = w.task;
  fault->cell = cell;
  fault->seen = seen;
  fault->expected = expected;
  mk_store_release(&fault->state, 2);
}

// Between two looks at faults and at the clock: these read what lies behind pointers, and take as long as
// some polls, in which a notification would go unseen.
constexpr u32 kPollsAtOnce = 8;

// Whether a wait that began at `since` (0: now) is given up: beyond its deadline, which is then a fault, or
// after another one. The worker has then given up. `cell`, `seen`, `expected`: of a fault here.
MK_INLINE bool gives_up(const Worker& w, u64& since, u64 timeout_ns, u32 cell, u32 seen, u32 expected) {
  const u64 now = mk_time_ns();
  if (since == 0) since = now;
  const bool late = timeout_ns != 0 && now - since > timeout_ns;
  if (!late && !faulted(w)) return false;
  if (late) record_fault(w, cell, seen, expected);
  w.give_up();
  return true;
}

// Waits until the counter has what is expected; after a fault it falls through, and the worker has given up.
// `cell`: its name in faults.
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

// Whether the phase is over, by some tries: each suspends the thread for a while by itself.
MK_INLINE bool try_phase(AS3 u64* bar, u32 parity) {
  constexpr u32 kTriesAtOnce = 4;
  MK_ROLLED
  for (u32 i = 0; i < kTriesAtOnce; ++i)
    if (mk_mbar_try_wait(bar, parity)) return true;
  return false;
}

// Waits for the phase; after a fault it falls through, so that control flow stays uniform to the end. `cell`
// and `seen`: of a fault here.
MK_INLINE void wait_phase(const Worker& w, AS3 u64* bar, u32 parity, u32 cell, u32 seen) {
  u64 since = 0;
  while (!try_phase(bar, parity))
    if (gives_up(w, since, w.timeout_ns(), cell, seen, 0)) return;
}

// Of a traced kernel: whether this thread stamps for its role, and where.
MK_INLINE bool stamps(const Worker& w) {
  return mk_tracing() && w.thread % kConsumerThreads == 0;
}
MK_INLINE AS1 MkTrack* track_of(const Worker& w) {
  const u64 bytes = sizeof(MkTrack) + (u64)w.session->trace_stamps * sizeof(MkStamp);
  return (AS1 MkTrack*)(w.session->trace + (mk_worker() * kTracks + w.thread / kConsumerThreads) * bytes);
}

// All threads: the tracks are those of this launch.
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

// Around a wait for a stage of the ring: when it began, 0 where it is over before or not traced.
MK_INLINE u64 ring_wait_begin(const Worker& w, AS3 u64* bar, u32 parity) {
  return !stamps(w) || mk_mbar_test(bar, parity) ? 0 : mk_stamp_time();
}
MK_INLINE void ring_wait_end(const Worker& w, u64 since) {
  if (since != 0) *w.in_ring() += (u32)(mk_stamp_time() - since);
}

// The next filled stage, or one `ahead` of it; every consumer warp acquires and releases each stage once, in
// order.
MK_INLINE AS3 char* acquire_stage(const Worker& w, u32 ahead = 0) {
  const u32 stage = w.stage + ahead, slot = stage % w.stages, parity = stage / w.stages % 2;
  const u64 since = mk_tracing() ? ring_wait_begin(w, w.full(slot), parity) : 0;
  wait_phase(w, w.full(slot), parity, kRingCell, stage);
  ring_wait_end(w, since);
  return w.stage_at(slot);
}
MK_INLINE void release_stage(Worker& w) {
  mk_warp_sync();
  if (w.lane() == 0) {
    mk_spoil_last(w.stage_at(w.stage % w.stages), kStageBytes);
    mk_mbar_arrive(w.empty(w.stage % w.stages));
  }
  ++w.stage;
}

// The same of a stage that threads have written: what comes next may be a copy of the engine.
MK_INLINE void release_written_stage(Worker& w) {
  mk_warp_sync();
  if (w.lane() == 0) mk_fence_proxy_async();
  release_stage(w);
}

MK_INLINE constexpr u32 min(u32 a, u32 b) {
  return a < b ? a : b;
}

// By value: clang 22's __builtin_bit_cast of a vector's element takes element 0 whatever the index.
MK_INLINE f32 as_f32(u32 bits) {
  return __builtin_bit_cast(f32, bits);
}

// Storage types of weights and caches: `word` is two values, the low half first. load8: 8 values of a stage
// as matrix instructions of the type Half take them.
struct F32 {
  static constexpr u32 bytes = 4;
  MK_INLINE static f32 round(f32 v) { return v; }
  MK_INLINE static f32 load(AS1 const char* p) { return *(AS1 const f32*)p; }
  MK_INLINE static void store(AS1 char* p, f32 v) { *(AS1 f32*)p = v; }
  MK_INLINE static void store(AS3 char* p, f32 v) { *(AS3 f32*)p = v; }
};
struct Bf16 {
  using Half = Bf16;
  static constexpr u32 bytes = 2;
  MK_INLINE static f32 low(u32 word) { return as_f32(word << 16); }
  MK_INLINE static f32 high(u32 word) { return as_f32(word & 0xffff0000u); }
  MK_INLINE static u32 pack(f32 lo, f32 hi) { return mk_pack_bf16(lo, hi); }
  MK_INLINE static void mma(f32* d, u32x4 a, u32 b0, u32 b1) {
    mk_mma_bf16(d, a[0], a[1], a[2], a[3], b0, b1);
  }
  MK_INLINE static void wgmma(f32* d, const u32* a, AS3 const void* b) { mk_wgmma_bf16(d, a, b); }
  MK_INLINE static f32 round(f32 v) { return low(pack(v, 0)); }
  MK_INLINE static f32 load(AS1 const char* p) { return low(*(AS1 const uint16_t*)p); }
  MK_INLINE static u32x4 load8(AS3 const char* p) { return *(AS3 const u32x4*)p; }
  MK_INLINE static void store(AS1 char* p, f32 v) { *(AS1 uint16_t*)p = (uint16_t)pack(v, 0); }
  MK_INLINE static void store(AS3 char* p, f32 v) { *(AS3 uint16_t*)p = (uint16_t)pack(v, 0); }
};
struct F16 {
  using Half = F16;
  static constexpr u32 bytes = 2;
  MK_INLINE static f32 low(u32 word) { return mk_f16_to_f32(word & 0xffffu); }
  MK_INLINE static f32 high(u32 word) { return mk_f16_to_f32(word >> 16); }
  MK_INLINE static u32 pack(f32 lo, f32 hi) { return mk_pack_f16(lo, hi); }
  MK_INLINE static void mma(f32* d, u32x4 a, u32 b0, u32 b1) {
    mk_mma_f16(d, a[0], a[1], a[2], a[3], b0, b1);
  }
  MK_INLINE static void wgmma(f32* d, const u32* a, AS3 const void* b) { mk_wgmma_f16(d, a, b); }
  MK_INLINE static f32 round(f32 v) { return low(pack(v, 0)); }
  MK_INLINE static f32 load(AS1 const char* p) { return mk_f16_to_f32(*(AS1 const uint16_t*)p); }
  MK_INLINE static u32x4 load8(AS3 const char* p) { return *(AS3 const u32x4*)p; }
  MK_INLINE static void store(AS1 char* p, f32 v) { *(AS1 uint16_t*)p = (uint16_t)pack(v, 0); }
  MK_INLINE static void store(AS3 char* p, f32 v) { *(AS3 uint16_t*)p = (uint16_t)pack(v, 0); }
};

// Stored divided by a scale, which whoever loads it multiplies by.
struct E4m3 {
  using Half = F16;
  static constexpr u32 bytes = 1;
  MK_INLINE static f32 round(f32 v) { return F16::low(mk_unpack_e4m3(mk_pack_e4m3(v, 0))); }
  MK_INLINE static f32 load(AS1 const char* p) { return F16::low(mk_unpack_e4m3(*(AS1 const uint8_t*)p)); }
  MK_INLINE static u32x4 load8(AS3 const char* p) {
    const u32x2 codes = *(AS3 const u32x2*)p;
    return u32x4{mk_unpack_e4m3(codes[0]), mk_unpack_e4m3(codes[0] >> 16), mk_unpack_e4m3(codes[1]),
                 mk_unpack_e4m3(codes[1] >> 16)};
  }
  MK_INLINE static void store(AS1 char* p, f32 v) { *(AS1 uint8_t*)p = (uint8_t)mk_pack_e4m3(v, 0); }
  MK_INLINE static void store(AS3 char* p, f32 v) { *(AS3 uint8_t*)p = (uint8_t)mk_pack_e4m3(v, 0); }
};

}  // namespace mk
