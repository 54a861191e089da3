// How the loader warp fills stages.
#pragma once

#include "codegen/device/worker.h"

namespace mk {

// Each fills a stage with `bytes`, in one or more copies between begin() and end().
//
// By the loader's one thread.
struct Bulk {
  MK_INLINE static bool any(bool v) { return v; }
  MK_INLINE static u32 same(u32 v) { return v; }
  MK_INLINE static bool leads(const Worker&) { return true; }
  MK_INLINE static void sync() {}
  MK_INLINE static void begin(const Worker& w, u32 slot, u32 bytes) { mk_mbar_expect(w.full(slot), bytes); }
  MK_INLINE static void copy(const Worker& w, u32 slot, u32 at, AS1 const char* from, u32 bytes) {
    mk_bulk_load(w.stage_at(slot) + at, from, bytes, w.full(slot));
  }
  MK_INLINE static void end(const Worker&, u32) {}
};

// By all lanes of the loader warp, for targets without a copy engine. any() and same() give all lanes one
// value: what they read may be in the making after a fault.
struct Async {
  MK_INLINE static bool any(bool v) { return mk_warp_max(v ? 1.0f : 0.0f) > 0; }
  MK_INLINE static u32 same(u32 v) { return (u32)mk_warp_max((f32)v); }
  MK_INLINE static bool leads(const Worker& w) { return w.lane() == 0; }
  MK_INLINE static void sync() { mk_warp_sync(); }
  MK_INLINE static void begin(const Worker&, u32, u32) {}
  MK_INLINE static void copy(const Worker& w, u32 slot, u32 at, AS1 const char* from, u32 bytes) {
    for (u32 i = w.lane() * 16; i < bytes; i += kWarpLanes * 16)
      mk_async_load16(w.stage_at(slot) + at + i, from + i);
  }
  MK_INLINE static void end(const Worker& w, u32 slot) { mk_async_arrive(w.full(slot)); }
};

// Waits until the consumers have freed something, by the phase of `bar`; their deadlines tell more than one
// here would. False, to all loading threads, where the launch is over before, or after a fault: consumers
// then free what is not full.
template <class Loader>
MK_INLINE bool wait_free(const Worker& w, AS3 u64* bar, u32 parity) {
  bool free;
  const u64 since = mk_tracing() ? ring_wait_begin(w, bar, parity) : 0;
  do free = mk_mbar_try_wait(bar, parity);
  while (!free && !over(w));
  ring_wait_end(w, since);
  return !Loader::any(!free || faulted(w));
}

}  // namespace mk
