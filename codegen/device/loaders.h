// How the loader warp fills stages.
#pragma once

#include "codegen/device/worker.h"

namespace mk {

// One value for all lanes, which go through the loader's code together: what they read may be in the making
// after a fault.
MK_INLINE u32 same_in_lanes(u32 v) {
  return (u32)mk_warp_max((f32)v);
}

// Each fills a stage with `bytes`, in one or more copies between begin() and end(), under a policy for L2. A
// full barrier counts one arrival of the lane that leads.
//
// By the copy engine.
struct Bulk {
  MK_INLINE static u64 policy(bool once) { return mk_l2_policy(once); }
  MK_INLINE static void begin(const Worker& w, u32 slot, u32 bytes) {
    if (w.lane() == 0) mk_mbar_expect(w.full(slot), bytes);
  }
  MK_INLINE static void copy(const Worker& w, u32 slot, u32 at, AS1 const char* from, u32 bytes, u64 policy) {
    if (w.lane() == 0) mk_bulk_load(w.stage_at(slot) + at, from, bytes, w.full(slot), policy);
  }
  MK_INLINE static void end(const Worker&, u32) {}
};

// By all lanes, for targets without one.
struct Async {
  MK_INLINE static u64 policy(bool) { return 0; }
  MK_INLINE static void begin(const Worker&, u32, u32) {}
  MK_INLINE static void copy(const Worker& w, u32 slot, u32 at, AS1 const char* from, u32 bytes, u64) {
    for (u32 i = w.lane() * 16; i < bytes; i += kWarpLanes * 16)
      mk_async_load16(w.stage_at(slot) + at + i, from + i);
  }
  MK_INLINE static void end(const Worker& w, u32 slot) {
    mk_async_arrive(w.full(slot));
    mk_warp_sync();  // all arrivals are counted before the last of them can be made
    if (w.lane() == 0) mk_mbar_arrive(w.full(slot));
  }
};

// Waits until the consumers have freed something, by the phase of `bar`; their deadlines tell more than one
// here would. False, to all lanes and from then on, where the launch is over before, or where a thread of
// this worker gave up a wait: what the loader reads to know what to bring, and what stages hold, is then in
// the making. What is free costs no load from global memory: whoever gives up says so in shared memory,
// before it frees anything.
MK_INLINE bool wait_free(const Worker& w, AS3 u64* bar, u32 parity) {
  bool free;
  const u64 since = mk_tracing() ? ring_wait_begin(w, bar, parity) : 0;
  do free = try_phase(bar, parity);
  while (!free && !over(w));
  ring_wait_end(w, since);
  if (!mk_warp_any(!free || w.gave_up())) return true;
  w.give_up();
  return false;
}

// The same for the next stage of the ring.
MK_INLINE bool wait_free_stage(const Worker& w) {
  return wait_free(w, w.empty(w.stage % w.stages), (w.stage / w.stages + 1) % 2);
}

}  // namespace mk
