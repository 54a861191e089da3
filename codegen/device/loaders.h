// The loader warp fills stages of the ring by bulk copies or by cp.async.
#pragma once

#include "codegen/device/worker.h"

namespace mk {

// same_in_lanes() gives all lanes one value, because they run the loader's code together. The value that they
// read may be in the making after a fault.
MK_INLINE u32 same_in_lanes(u32 v) {
  return (u32)mk_warp_max((f32)v);
}

// Bulk and Async fill a stage with `bytes` bytes, by copies between begin() and end(), under a policy for L2.
// A full barrier counts one arrival, that of lane 0.
//
// Bulk copies by the copy engine (cp.async.bulk).
struct Bulk {
  MK_INLINE static u64 policy(bool once) { return mk_l2_policy(once); }
  MK_INLINE static void begin(const Worker& w, u32 stage_index, u32 bytes) {
    if (w.lane() == 0) mk_mbar_expect(w.full(stage_index), bytes);
  }
  MK_INLINE static void copy(const Worker& w, u32 stage_index, u32 at, AS1 const char* from, u32 bytes,
                             u64 policy) {
    if (w.lane() == 0) mk_bulk_load(w.stage_at(stage_index) + at, from, bytes, w.full(stage_index), policy);
  }
  MK_INLINE static void end(const Worker&, u32) {}
};

// Async copies by all lanes (cp.async), for targets without a copy engine.
struct Async {
  MK_INLINE static u64 policy(bool) { return 0; }
  MK_INLINE static void begin(const Worker&, u32, u32) {}
  MK_INLINE static void copy(const Worker& w, u32 stage_index, u32 at, AS1 const char* from, u32 bytes, u64) {
    for (u32 i = w.lane() * kChunkBytes; i < bytes; i += kWarpLanes * kChunkBytes)
      mk_async_load16(w.stage_at(stage_index) + at + i, from + i);
  }
  MK_INLINE static void end(const Worker& w, u32 stage_index) {
    mk_async_arrive(w.full(stage_index));
    mk_warp_sync();  // all lanes' arrivals are counted before lane 0's can complete the phase
    if (w.lane() == 0) mk_mbar_arrive(w.full(stage_index));
  }
};

// wait_free() waits until the consumers have freed something, by the phase of `bar`. wait_free() has no
// deadline, because the consumers' deadlines tell more about a fault.
//
// The result is false for all lanes, from then on, once the launch is over or a thread of this worker gave up
// a wait. The values that the loader reads, and the contents of stages, are then in the making. A free stage
// costs no load from global memory. Whoever gives up says so in shared memory before it frees anything.
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

// wait_free_stage() waits for the next stage of the ring.
MK_INLINE bool wait_free_stage(const Worker& w) {
  return wait_free(w, w.empty(w.stages_acquired % w.stages), (w.stages_acquired / w.stages + 1) % 2);
}

}  // namespace mk
