// Pack converts rows as a checkpoint has them to the packed layout (runtime/abi/packing.h). Each session does
// so once, when it is opened.
#include "codegen/device/pack.h"

#include "codegen/device/bodies.h"

namespace mk {

namespace {

// The elements that a lane has of a k-step of one row are contiguous in the checkpoint. These elements are
// two pieces, of one or two columns each.
template <class W>
MK_INLINE void pack_rows(const MkPack& p, const PackedShape& shape, u64 thread, u64 threads) {
  using Element = typename Unsigned<W::row.bits>::Type;
  constexpr u32 piece_cols = W::matrix ? 2 : 1, cols = 2 * piece_cols;
  // Codes of 8 bits have a word for each row. Other codes have the other row's piece between.
  constexpr u32 apart = W::row.bits == 8 ? 1 : piece_cols;
  using Piece = typename Unsigned<W::row.bits * piece_cols>::Type;
  const u64 places = (p.cols + cols - 1) / cols;
  for (u64 i = thread; i < p.rows * places; i += threads) {
    const u64 col = i % places * cols, row = packed_row(p, i / places);
    AS1 const Element* from = (AS1 const Element*)p.from + (i / places * p.cols + col);
    AS1 Piece* to = (AS1 Piece*)((AS1 char*)p.to + packed_offset(shape, row, col));
    MK_UNROLL
    for (u32 piece = 0; piece < 2; ++piece) {
      u32 bits = 0;
      MK_UNROLL
      for (u32 k = 0; k < piece_cols; ++k) {
        const u32 at = piece * piece_cols + k;
        if (col + at < p.cols) bits |= (u32)from[at] << W::row.bits * k;
      }
      to[piece * apart] = (Piece)bits;
    }
  }
}

// pack_nibbles() packs codes of 4 bits, eight to a word of the checkpoint, the lowest bits first. A thread
// takes four columns of a row, which are two bytes of a lane.
MK_INLINE void pack_nibbles(const MkPack& p, const PackedShape& shape, u64 thread, u64 threads) {
  constexpr u32 cols = 4;
  const u64 places = p.cols / cols;
  for (u64 i = thread; i < p.rows * places; i += threads) {
    const u64 col = i % places * cols, row = packed_row(p, i / places);
    const u32 codes = ((AS1 const uint16_t*)p.from)[i];
    AS1 char* to = (AS1 char*)p.to;
    to[packed_offset(shape, row, col)] = (char)((codes & 0xfu) | (codes >> 4 & 0xf0u));
    to[packed_offset(shape, row, col + 1)] = (char)((codes >> 4 & 0xfu) | (codes >> 8 & 0xf0u));
  }
}

// pack_groups() writes the scales and zero points of a format's groups.
template <class W>
MK_INLINE void pack_groups(const MkPack& p, const PackedShape& shape, u64 thread, u64 threads) {
  const u64 groups = groups_of<W>(p);
  for (u64 i = thread; i < p.rows * groups; i += threads)
    put_group<W>(p, i / groups, i % groups,
                 [&](u64 row, u64 group) { return group_offset(shape, row, group * W::row.group_cols); });
}

template <class W>
MK_INLINE void pack(AS1 const MkPack* pack_at, u32 workers, u32 threads_of_worker) {
  AS1 const MkPack& at = *pack_at;
  const MkPack p{at.from, at.scales,      at.group_scales, at.group_zeros, at.to,    at.first, at.rows,
                 at.cols, at.matrix_rows, at.sources,      at.source,      at.group, at.type};
  const u64 thread = (u64)mk_worker() * threads_of_worker + mk_thread();
  const u64 threads = (u64)workers * threads_of_worker;
  const PackedShape shape = packed_shape(p.matrix_rows, p.cols, W::type);
  if constexpr (W::row.bits == 4)
    pack_nibbles(p, shape, thread, threads);
  else
    pack_rows<W>(p, shape, thread, threads);
  if constexpr (W::grouped) pack_groups<W>(p, shape, thread, threads);
  if constexpr (W::scaled)
    for (u64 i = thread; i < p.rows * kKSlices; i += threads)
      *(AS1 f32*)((AS1 char*)p.to + scale_offset(shape, packed_row(p, i / kKSlices), i % kKSlices)) =
          ((AS1 const f32*)p.scales)[i / kKSlices];
}

}  // namespace

#define MK_PACK(name, type)                                                           \
  MK_BODY void mkd_pack_##name(AS1 const MkPack* pack_at, u32 workers, u32 threads) { \
    pack<WeightsOf<WeightType::type>>(pack_at, workers, threads);                     \
  }
MKRT_EACH_WEIGHT_TYPE(MK_PACK)

}  // namespace mk
