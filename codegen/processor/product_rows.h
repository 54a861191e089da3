// A product's rows of x are prepared in the worker's memory before its strips are multiplied (product.h).
#pragma once

#include "codegen/processor/amx.h"
#include "codegen/processor/weights.h"
#include "codegen/processor/worker.h"

namespace mk {

// kPackedTokens is the most tokens that go through packed strips, a group after the other. Unpacking to
// registers runs beside multiply-adds, and unpacking to memory (product_unpacked.h) takes time of its own.
constexpr u32 kPackedTokens = 8;
// kRowGap is the words between two rows, which keep rows of 2^n columns out of each other's cache sets.
constexpr u32 kRowGap = 16;

MK_INLINE u32 padded_cols(const ProductArgs& a, const WeightFormat& format) {
  return (a.tiles - 1) * format.tile_cols + a.tail_cols;
}

// norm_scale() is the scale of a norm of row `row` of x, from the sums of squares that the row's producer
// left.
MK_INLINE f32 norm_scale(const ProductArgs& a, u32 row) {
  const EpilogueArgs& e = *plain(a.epilogue);
  const f32* parts = plain(e.sum_squares) + (u64)row * e.sumsq_partials;
  f32x16 sums = all_lanes(0);
  for (u32 i = 0; i < e.sumsq_partials; i += kVector)
    sums += load_part<f32x16>(parts + i, e.sumsq_partials - i);
  return mk_rsqrt(sum_of(sums) / (f32)a.cols + e.eps);
}

// kChunkCols is how many columns of a strip more tokens than kPackedTokens go through together. kFullPass or
// kSmallPass such tokens go at a time: a pass. Registers have sums for kFullPass.
constexpr u32 kChunkCols = 128;
#ifdef __AVX512F__
constexpr u32 kFullPass = 12, kSmallPass = 8;
#else
constexpr u32 kFullPass = 6, kSmallPass = 4;
#endif
static_assert(kFullPass <= kSpareRows);

// chunks_of() is the chunks of a K slice of rows that have so many columns, padded.
MK_INLINE constexpr u32 chunks_of(u32 padded_cols, u32 chunk_cols = kChunkCols) {
  return (padded_cols / kKSlices + chunk_cols - 1) / chunk_cols;
}
// rows_bytes() is the memory of so many rows. The widest X has a word for each column.
MK_INLINE constexpr u64 rows_bytes(u32 tokens, u32 padded_cols) {
  return (u64)(tokens + kSpareRows) * (kKSlices * chunks_of(padded_cols) * kChunkCols + kRowGap) *
         sizeof(f32);
}
MK_INLINE u32 passes_of(u32 tokens) {
  return (tokens + kFullPass - 1) / kFullPass;
}
// each_pass() calls pass(token, size) for passes of even sizes, which together take all tokens.
template <class Pass>
MK_INLINE void each_pass(u32 tokens, const Pass& pass) {
  for (u32 token = 0, size; token < tokens; token += size) {
    const u32 left = tokens - token, passes = passes_of(left);
    size = (left + passes - 1) / passes <= kSmallPass ? kSmallPass : kFullPass;
    pass(token, size);
  }
}

// Rows are the rows of x as steps take them, in the worker's memory: normalised, and 0 past the last column.
// The tokens of a pass have a chunk of columns together, and then the next. So a pass reads memory in order,
// and knows at which distance its tokens lie. Tokens that go through packed strips have their rows alone.
// Each K slice begins a chunk. A pass of AMX has a tile in each chunk.
template <class W>
struct Rows {
  typedef Steps<W::type> S;
  typedef typename S::X X;
  typedef typename S::RowGroup RowGroup;
  // Columns that put() takes together: a vector, or a group that has its own scale in a row.
  static constexpr u32 together = S::row_group_words == 0 ? kVector : W::row.group_cols;
  static constexpr u32 kCols = S::amx ? kAmxCols : kChunkCols;    // of a chunk
  static constexpr u32 kChunkWords = kCols / S::cols * S::parts;  // X of a token in a chunk
  static_assert(kCols % together == 0);
  X* rows;
  u32 padded, chunks;  // padded columns of a row, and chunks of a K slice
  u32 words, stride;   // X of a row's columns, and X of a row

  MK_INLINE Rows(char* memory, u32 padded_cols)
      : rows((X*)memory),
        padded(padded_cols),
        chunks(chunks_of(padded_cols, kCols)),
        words(kKSlices * chunks * kChunkWords),
        stride(words + padded / together * S::row_group_words + kRowGap) {}
  MK_INLINE Rows(const Worker& w, const ProductArgs& a) : Rows(rows_of(w), padded_cols(a, W::row)) {}

  // of_pass() is where the pass of `size` tokens from `first` on has a K slice. Its next chunk lies
  // size * kChunkWords behind. of() is that of a token whose row lies alone.
  MK_INLINE X* of_pass(u32 first, u32 size, u32 k_slice) const {
    return rows + (u64)first * stride + (u64)k_slice * chunks * size * kChunkWords;
  }
  MK_INLINE const X* of(u32 token, u32 k_slice) const { return of_pass(token, 1, k_slice); }
  // group() is what a token has for a group of columns. It lies behind all columns of its pass, whose token
  // `first + i` it is.
  MK_INLINE X* group_at(u32 first, u32 size, u32 i, u32 number) const {
    return rows + (u64)first * stride + (u64)size * words + i * (stride - words) +
           number * S::row_group_words;
  }
  MK_INLINE RowGroup group(u32 first, u32 size, u32 i, u32 number) const {
    if constexpr (S::row_group_words == 0)
      return {};
    else
      return load<RowGroup>(group_at(first, size, i, number));
  }

  // at() is where a token's columns of a K slice lie, from `col` on.
  MK_INLINE static X* at(X* slice, u32 size, u32 col) {
    return slice + (u64)(col / kCols) * size * kChunkWords + col % kCols / S::cols * S::parts;
  }
  // each_part() calls part(col, to) for each `together` columns of token i of a pass, which begin at col.
  // Zeros fill the last tile of AMX.
  template <class Part>
  MK_INLINE void each_part(u32 first, u32 size, u32 i, const Part& part) const {
    const u32 cols = padded / kKSlices;
    for (u32 k_slice = 0; k_slice < kKSlices; ++k_slice) {
      X* const slice = of_pass(first, size, k_slice) + i * kChunkWords;
      for (u32 col = 0; col < cols; col += together) part(k_slice * cols + col, at(slice, size, col));
      if (S::amx && cols % kAmxCols != 0) store(at(slice, size, cols), u16x16(0));
    }
  }
  // copy() takes a row of bf16 as it is.
  MK_INLINE void copy(u32 first, u32 size, u32 i, const uint16_t* from, u32 cols) const {
    each_part(first, size, i, [&](u32 col, X* to) {
      store((uint16_t*)to, load_part<u16x16>(from + col, col < cols ? cols - col : 0));
    });
  }
  // put() takes row `row` of x as that of token first + i.
  __attribute__((noinline)) void put(const Worker& w, const ProductArgs& a, u32 first, u32 size, u32 i,
                                     u32 row) const {
    const EpilogueArgs& e = *plain(a.epilogue);
    const char* from = (const char*)plain(a.x) + (u64)row * a.cols * (a.x_bf16 ? Bf16::bytes : F32::bytes);
    const f32* norm = plain(a.norm);
    f32 scale = 1;
    thread_of(w).scale[first + i] = 1;
    if (a.normed) {
      f32x16 squares = all_lanes(0);
      for (u32 col = 0; col < a.cols; col += kVector) {
        const f32x16 v = load16<F32>(from + col * F32::bytes, a.cols - col);
        squares = fma(v, v, squares);
      }
      scale = mk_rsqrt(sum_of(squares) / (f32)a.cols + e.eps);
    } else if (a.x_bf16 && e.sumsq_partials != 0) {
      thread_of(w).scale[first + i] = norm_scale(a, row);
    }
    if constexpr (S::bf16_pairs)
      if (a.x_bf16 && !a.normed) return copy(first, size, i, (const uint16_t*)from, a.cols);
    each_part(first, size, i, [&](u32 begin, X* to) {
      f32x16 values[together / kVector];
      MK_UNROLL
      for (u32 n = 0; n < together / kVector; ++n) {
        const u32 col = begin + n * kVector, left = col < a.cols ? a.cols - col : 0;
        f32x16& v = values[n];
        v = a.x_bf16 ? load16<Bf16>(from + col * Bf16::bytes, left)
                     : load16<F32>(from + col * F32::bytes, left);
        if (a.normed) v = v * all_lanes(scale) * load16<F32>((const char*)(norm + col), left);
      }
      if constexpr (S::row_group_words == 0) {
        S::put(to, values[0]);
      } else {
        RowGroup group;
        S::put_group(to, group, values, S::sum_factor);
        store(group_at(first, size, i, begin / together), group);
      }
    });
  }
  // put_all() takes row row_of(token) of x for each of `tokens` tokens.
  template <class RowOf>
  MK_INLINE void put_all(const Worker& w, const ProductArgs& a, u32 tokens, const RowOf& row_of) const {
    const auto pass = [&](u32 first, u32 size) {
      for (u32 i = 0; i < size && first + i < tokens; ++i) put(w, a, first, size, i, row_of(first + i));
    };
    if constexpr (S::amx) {
      for (u32 token = 0; token < tokens; token += kAmxRows) pass(token, kAmxRows);
      return;
    }
    if (tokens > kPackedTokens) return each_pass(tokens, pass);
    for (u32 token = 0; token < tokens; ++token) pass(token, 1);
  }
};

}  // namespace mk
