// A worker's segments come to its shared memory one ahead. The numbers that describe a segment are there when
// it begins. Loads from global memory would take two dependent accesses, for which all threads of the worker
// would wait. Consumers and loader have segments of their own, because the loader runs ahead.
#include "codegen/device/bodies.h"
#include "codegen/device/loaders.h"

namespace mk {
namespace {

MK_INLINE bool consumes(const Worker& w) {
  return w.thread < kConsumerThreads;
}

// following() is the number of the segment behind the `at`-th. The first one follows the last one.
MK_INLINE u32 following(const Worker& w, u32 at) {
  return at + 1 == w.arenas()->last_segment ? w.arenas()->first_segment : at + 1;
}

// bring() starts the copy of the role's next segment, which is the worker's `at`-th and follows `w.segments`
// others. All lanes of one warp call it. `names` is a copy of the segment that is there already.
template <class Names>
MK_INLINE void bring(const Worker& w, Names names, u32 at) {
  const u32 lane = w.lane(), buffer = w.segments % 2, grid = names->grid, inlined = names->inline_grid;
  AS1 const char* segments = (AS1 const char*)w.arenas()->segments;
  AS1 const char* grids = (AS1 const char*)w.arenas()->grids;
  constexpr u32 kCopyBytes = 16, kOfGrid = sizeof(MkGrid) / kCopyBytes;
  static_assert(sizeof(MkSegment) == kCopyBytes && kOfGrid * kCopyBytes == sizeof(MkGrid) &&
                2 + 2 * kOfGrid <= 32);
  AS1 const char* from = nullptr;
  if (lane == 0) from = segments + (u64)at * kCopyBytes;
  if (lane == 1) from = segments + (u64)following(w, at) * kCopyBytes;
  if (lane >= 2) from = grids + (u64)grid * sizeof(MkGrid) + (lane - 2) * kCopyBytes;
  const bool second = lane >= 2 + kOfGrid;
  if (second) from = grids + (u64)inlined * sizeof(MkGrid) + (lane - 2 - kOfGrid) * kCopyBytes;
  const bool there = lane < 2 + kOfGrid || (consumes(w) && lane < 2 + 2 * kOfGrid && inlined != kNoGrid);
  if (there) mk_async_load16((AS3 char*)w.ahead(buffer) + lane * kCopyBytes, from);
  mk_async_arrive(w.brought(buffer));
  mk_warp_sync();  // all lanes' arrivals are counted before lane 0's can complete the phase
  if (lane == 0) mk_mbar_arrive(w.brought(buffer));
}

// await_brought() needs no deadline, because no other thread takes part in the copies.
MK_INLINE void await_brought(const Worker& w) {
  while (!mk_mbar_try_wait(w.brought(w.segments % 2), w.segments / 2 % 2)) {
  }
}

// brings() is true in the warp that brings its role's segments.
MK_INLINE bool brings(const Worker& w) {
  return w.warp() == 0 || !consumes(w);
}

}  // namespace

// mkd_segments_begin() begins to bring a role's first segment. All threads of the role call it.
MK_BODY void mkd_segments_begin(Worker* w) {
  const u32 first = w->arenas()->first_segment;
  if (first == w->arenas()->last_segment || !brings(*w)) return;
  bring(*w, (AS1 const MkSegment*)w->arenas()->segments + first, first);
}

// mkd_segment_begin() gives what is known of the `at`-th segment, and begins to bring the next one. All
// threads of a role call it before each segment.
MK_BODY AS3 const SegmentAhead* mkd_segment_begin(Worker* w, u32 at) {
  launder_thread(*w);
  AS3 const SegmentAhead* ahead = w->ahead(w->segments % 2);
  if (brings(*w)) await_brought(*w);
  if (consumes(*w)) {
    consumer_barrier();  // all threads have finished reading the segment before
    mk_spoil(w->scratch(), kScratchBytes);
  } else {
    mk_warp_sync();
  }
  ++w->segments;
  if (brings(*w)) bring(*w, &ahead->next, following(*w, at));
  return ahead;
}

// mkd_segments_end() waits for copies that are under way. A worker must not exit before they have reached its
// shared memory. All threads of a role call it at the end.
MK_BODY void mkd_segments_end(Worker* w) {
  if (w->arenas()->first_segment != w->arenas()->last_segment && brings(*w)) await_brought(*w);
}

}  // namespace mk
