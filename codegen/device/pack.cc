// Pack converts rows as a checkpoint has them to the packed layout (runtime/abi/packing.h). Each session does
// so once, when it is opened.
#include "codegen/device/bodies.h"

namespace mk {

namespace {

// The elements that a lane has of a k-step of one row are contiguous in the checkpoint. These elements are
// two words, of one or two columns each.
template <u32 ElemBytes>
MK_INLINE void pack(const MkPack& p, u64 thread, u64 threads) {
  constexpr u32 word_cols = 4 / ElemBytes, cols = 2 * word_cols, apart = ElemBytes == 2 ? 8 : 4;
  const PackedShape shape = packed_shape(p.matrix_rows, p.cols, ElemBytes);
  const u64 places = (p.cols + cols - 1) / cols;
  for (u64 i = thread; i < p.rows * places; i += threads) {
    const u64 r = p.first + i / places, col = i % places * cols,
              row = p.sources == 1 ? r : (r / p.group * p.sources + p.source) * p.group + r % p.group;
    AS1 const char* from = (AS1 const char*)p.from + (i / places * p.cols + col) * ElemBytes;
    AS1 char* to = (AS1 char*)p.to + packed_offset(shape, row, col);
    MK_UNROLL
    for (u32 word = 0; word < 2; ++word) {
      u32 bits = 0;
      MK_UNROLL
      for (u32 k = 0; k < word_cols; ++k) {
        const u32 at = word * word_cols + k;
        if (col + at >= p.cols) continue;
        bits |= ElemBytes == 2 ? (u32)((AS1 const uint16_t*)from)[at] << 16 * k : ((AS1 const u32*)from)[at];
      }
      *(AS1 u32*)(to + word * apart) = bits;
    }
  }
}

}  // namespace

MK_BODY void mkd_pack(AS1 const MkPack* pack_at, u32 workers, u32 threads) {
  AS1 const MkPack& at = *pack_at;
  const MkPack p{at.from,        at.to,      at.first,  at.rows,  at.cols,
                 at.matrix_rows, at.sources, at.source, at.group, at.elem_bytes};
  const u64 thread = (u64)mk_worker() * threads + mk_thread();
  if (p.elem_bytes == 2) return pack<2>(p, thread, (u64)workers * threads);
  pack<4>(p, thread, (u64)workers * threads);
}

}  // namespace mk
