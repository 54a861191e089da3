// The attention loop of codegen/processor_loops.h is compiled here for one instruction set.
#include "codegen/processor/attend_amx.h"
#include "codegen/processor/attend_rows.h"
#include "codegen/processor_loops.h"

namespace mk {

namespace {

// AttendMemory is what a decode step's attention of one key/value head reads and writes beside the cache.
struct alignas(64) AttendMemory {
  char shared[kBarrierBytes + kListBytes + kScratchBytes];
  f32 q[kMaxRows * ProcessorLoops::kAttendColumns], acc[kMaxRows * ProcessorLoops::kAttendColumns];
  f32 ml[2 * kMaxRows], scale;
  u32 zero, one, positions;
#ifdef __AMX_BF16__
  AmxAttendMemory amx;
#endif
};
static_assert(sizeof(AttendMemory) <= ProcessorLoops::kAttendBytes &&
              ProcessorLoops::kAttendPositions == kKvTile &&
              ProcessorLoops::kAttendPages == kKvTile / kPlacePositions);

template <class C, u32 R>
u64 attend_rows(const char* keys, const char* values, u64 stride, const u32* pages, AttendMemory& m) {
  constexpr u32 kColumns = ProcessorLoops::kAttendColumns;
  m.scale = 1, m.zero = 0, m.one = 1, m.positions = kKvTile;
  AttendArgs a = {};
  a.q = (AS1 const f32*)m.q;
  a.partial_acc = (AS1 f32*)m.acc, a.partial_ml = (AS1 f32*)m.ml;
  const auto* scale = (AS1 const f32*)&m.scale;
  a.cache = {
      (AS1 char*)keys,         (AS1 char*)values,     scale, scale, kPlacePositions * stride, stride, 0,
      (AS1 const u32*)&m.zero, (AS1 const u32*)pages, 4};
  a.request = a.first_row = (AS3 const u32*)&m.zero;
  a.rows = a.step_rows = (AS3 const u32*)&m.one;
  a.kv_len = a.context = (AS3 const u32*)&m.positions;
  a.tokens = 1, a.partial_positions = kKvTile, a.heads = R, a.kv_heads = 1, a.head_dim = kColumns,
  a.scale = 1;
  Worker w = {};
  w.shared = (AS3 char*)m.shared;
  const Rows block(a, 0, 0);
  const KvTile kv_tile(a, block, 0, 0);
  const QueryTile query_tile(a, block, 0, R);
#ifdef __AMX_BF16__
  if constexpr (__is_same(C, Bf16))
    AmxQueryTile(m.amx, a, block, query_tile, kv_tile).attend();
  else
#endif
    QueryRows<C, R>(w, a, block, query_tile, kv_tile).attend();
  return 2 * (u64)R * kKvTile * kColumns;
}

}  // namespace

// The loop's interface is that of ProcessorLoops::attend.
extern "C" u64 MK_ATTEND_LOOP(WeightType type, bool group, const char* keys, const char* values, u64 stride,
                              const u32* pages, char* memory) {
  auto& m = *(AttendMemory*)memory;
  const auto attend_as = [&]<class C>(C) {
    return group ? attend_rows<C, kMaxRows>(keys, values, stride, pages, m)
                 : attend_rows<C, 1>(keys, values, stride, pages, m);
  };
  switch (type) {
    case WeightType::kF32:
      return attend_as(F32());
    case WeightType::kF16:
      return attend_as(F16());
    case WeightType::kBf16:
      return attend_as(Bf16());
    case WeightType::kE4m3:
      return attend_as(E4m3());
    default:  // no cache has the type
      return 0;
  }
}

}  // namespace mk
