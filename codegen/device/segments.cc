// A worker's segments, brought into its shared memory one ahead: when a segment begins, the numbers that say
// what it is are there. From global memory they would take two loads, one behind the other, that all of the
// worker's threads stand still for. Consumers and loader have segments of their own: the loader runs ahead.
#include "codegen/device/bodies.h"
#include "codegen/device/loaders.h"

namespace mk {
namespace {

MK_INLINE bool consumes(const Worker& w) {
  return w.thread < kConsumerThreads;
}

// All lanes of one warp: begins to bring the role's segment that comes after `w.segments` others, which is
// the worker's `at`-th. `names`: a copy of it that is there.
template <class Names>
MK_INLINE void bring(const Worker& w, Names names, u32 at, u32 first, u32 last) {
  const u32 lane = w.lane(), slot = w.segments % 2, grid = names->grid, inlined = names->inline_grid;
  AS1 const char* segments = (AS1 const char*)w.arenas()->segments;
  AS1 const char* grids = (AS1 const char*)w.arenas()->grids;
  constexpr u32 kKvTile = 16, kOfGrid = sizeof(MkGrid) / kKvTile;
  static_assert(sizeof(MkSegment) == kKvTile && kOfGrid * kKvTile == sizeof(MkGrid) && 2 + 2 * kOfGrid <= 32);
  AS1 const char* from = nullptr;
  if (lane == 0) from = segments + (u64)at * kKvTile;
  if (lane == 1) from = segments + (u64)(at + 1 == last ? first : at + 1) * kKvTile;
  if (lane >= 2) from = grids + (u64)grid * sizeof(MkGrid) + (lane - 2) * kKvTile;
  const bool second = lane >= 2 + kOfGrid;
  if (second) from = grids + (u64)inlined * sizeof(MkGrid) + (lane - 2 - kOfGrid) * kKvTile;
  const bool there = lane < 2 + kOfGrid || (consumes(w) && lane < 2 + 2 * kOfGrid && inlined != kNoGrid);
  if (there) mk_async_load16((AS3 char*)w.ahead(slot) + lane * kKvTile, from);
  mk_async_arrive(w.brought(slot));
  mk_warp_sync();  // all arrivals are counted before the last of them can be made
  if (lane == 0) mk_mbar_arrive(w.brought(slot));
}

// Nobody else takes part in what is waited for, so there is no deadline.
MK_INLINE void await_brought(const Worker& w) {
  while (!mk_mbar_try_wait(w.brought(w.segments % 2), w.segments / 2 % 2)) {
  }
}

// Of the warp that brings its role's segments.
MK_INLINE bool brings(const Worker& w) {
  return w.warp() == 0 || !consumes(w);
}

}  // namespace

// All threads of a role, before its first segment [first, last): begins to bring it.
MK_BODY void mkd_segments_begin(Worker* w, u32 first, u32 last) {
  if (first == last || !brings(*w)) return;
  bring(*w, (AS1 const MkSegment*)w->arenas()->segments + first, first, first, last);
}

// All threads of a role, before each segment: what is known of the `at`-th, and begins to bring the next; the
// first comes after the last, in the next step.
MK_BODY AS3 const SegmentAhead* mkd_segment_begin(Worker* w, u32 at, u32 first, u32 last) {
  launder_thread(*w);
  AS3 const SegmentAhead* ahead = w->ahead(w->segments % 2);
  if (brings(*w)) await_brought(*w);
  if (consumes(*w)) {
    consumer_barrier();  // nobody reads the segment before any more
    mk_spoil(w->scratch(), kScratchBytes);
  } else {
    mk_warp_sync();
  }
  ++w->segments;
  if (brings(*w)) bring(*w, &ahead->next, at + 1 == last ? first : at + 1, first, last);
  return ahead;
}

// All threads of a role, at the end: a worker must not exit while copies into its shared memory are under
// way.
MK_BODY void mkd_segments_end(Worker* w, u32 first, u32 last) {
  if (first != last && brings(*w)) await_brought(*w);
}

}  // namespace mk
