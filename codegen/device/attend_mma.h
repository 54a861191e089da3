// Attention on matrix instructions (m16n8k16), for caches of 2 bytes an element and less: rows of queries are
// those of the first operand, 16 at a time. The products' inner index and the values' columns may go in any
// order, so each lane gets 8 neighbouring elements of a key or value by one load, and none move between
// lanes: lane 4g + t has elements 8t of a key's 32, and columns 8g of a value's 64.
#pragma once

#include "codegen/device/attend.h"

namespace mk {

constexpr u32 kKeyStep = 32;  // elements of a key that 4 lanes load at a time

// Elements [i, i + 8) of a position in a stage as matrix instructions take them, 0 from the `count`-th on.
template <class C>
MK_INLINE u32x4 load8(AS3 const char* rows, u32 position, u32 i, u32 count) {
  return i < count ? C::load8(rows + StageRows<C>::at(position, i * C::bytes)) : u32x4(0);
}

template <class C>
struct MmaForm {
  static constexpr u32 kRows = kBlockRows;
  using Half = typename C::Half;

  f32 score[4][4];  // of positions 8j + 2t and 8j + 2t + 1: row g, then row g + 8
  u32x4 weight[2];  // of 16 positions each, as first operands
  f32 sum[8][4];    // columns 16t + j and 16t + 8 + j: row g, then row g + 8

  MK_INLINE static u32 g(const Warp& x) { return x.lane() / 4; }
  MK_INLINE static u32 t(const Warp& x) { return x.lane() % 4; }

  MK_INLINE static u32 padded(u32 head_dim) { return (head_dim + kKeyStep - 1) / kKeyStep * kKeyStep; }
  // Bytes from one query to the next: so that what 8 lanes read at a time lies in all banks.
  MK_INLINE static u32 stride(u32 head_dim) { return padded(head_dim) * 2 | 64; }
  MK_INLINE static void put_query(AS3 char* q, u32 row, u32 i, f32 value, u32 head_dim) {
    *(AS3 uint16_t*)(q + row * stride(head_dim) + 2 * i) = (uint16_t)Half::pack(value, 0);
  }
  // What lies behind a query meets zeros, and must be a number.
  MK_INLINE static void end_query(const Worker& w, AS3 char* q, u32 row, u32 head_dim) {
    for (u32 i = head_dim + w.lane(); i < padded(head_dim); i += kWarpLanes)
      put_query(q, row, i, 0, head_dim);
  }

  MK_INLINE void begin() {
    MK_UNROLL
    for (u32 j = 0; j < 4; ++j) MK_UNROLL
    for (u32 i = 0; i < 4; ++i) score[j][i] = 0;
  }

  // Columns [column, column + kSumColumns) of keys.
  MK_INLINE void add_keys(const Warp& x, AS3 const char* rows, u32 column) {
    const u32 columns = least(x.a.head_dim - column, kSumColumns);
    AS3 const char* query = x.scratch.q + g(x) * stride(x.a.head_dim) + 16 * t(x) + 2 * column;
    MK_ROLLED
    for (u32 step = 0; step < columns; step += kKeyStep) {
      const u32x4 low = *(AS3 const u32x4*)(query + 2 * step);
      const u32x4 high = *(AS3 const u32x4*)(query + 2 * step + kSumRows * stride(x.a.head_dim));
      u32x4 k[4];
      MK_UNROLL
      for (u32 j = 0; j < 4; ++j)
        k[j] = load8<C>(rows, x.nearest_seen(8 * j + g(x)), step + 8 * t(x), columns);
      MK_UNROLL
      for (u32 j = 0; j < 4; ++j) {
        Half::mma(score[j], u32x4{low[0], high[0], low[1], high[1]}, k[j][0], k[j][1]);
        Half::mma(score[j], u32x4{low[2], high[2], low[3], high[3]}, k[j][2], k[j][3]);
      }
    }
  }

  MK_INLINE void hide_unseen(const Warp& x, f32 scale) {
    MK_UNROLL
    for (u32 j = 0; j < 4; ++j) MK_UNROLL
    for (u32 i = 0; i < 4; ++i) {
      const bool visible = x.b.visible(x.a, g(x) + i / 2 * kSumRows, x.first + 8 * j + 2 * t(x) + i % 2);
      score[j][i] = visible ? score[j][i] * scale : kNone;
    }
  }

  MK_INLINE void put_greatest(const Warp& x) {
    MK_UNROLL
    for (u32 half = 0; half < 2; ++half) {
      f32 most = kNone;
      MK_UNROLL
      for (u32 j = 0; j < 4; ++j)
        most = __builtin_fmaxf(most, __builtin_fmaxf(score[j][2 * half], score[j][2 * half + 1]));
      most = __builtin_fmaxf(most, mk_shuffle_xor(most, 2));
      most = __builtin_fmaxf(most, mk_shuffle_xor(most, 1));
      if (t(x) == 0) x.scratch.greatest(g(x) + half * kSumRows)[x.warp()] = most;
    }
  }

  // Rounded, as they are multiplied; so is their total.
  MK_INLINE void weigh(const Warp& x) {
    MK_UNROLL
    for (u32 half = 0; half < 2; ++half) {
      const f32 all = x.scratch.greatest_of_all(g(x) + half * kSumRows);
      f32 total = 0;
      MK_UNROLL
      for (u32 j = 0; j < 4; ++j) {
        const u32 pair =
            Half::pack(part_weight(score[j][2 * half], all), part_weight(score[j][2 * half + 1], all));
        weight[j / 2][j % 2 * 2 + half] = pair;
        total += Half::low(pair) + Half::high(pair);
      }
      total = mk_quad_sum(total);
      if (t(x) == 0) x.scratch.total(g(x) + half * kSumRows)[x.warp()] = total;
    }
  }

  MK_INLINE void begin_sums() {
    MK_UNROLL
    for (u32 j = 0; j < 8; ++j) MK_UNROLL
    for (u32 i = 0; i < 4; ++i) sum[j][i] = 0;
  }

  MK_INLINE void add_values(const Warp& x, AS3 const char* rows, u32 column) {
    const u32 columns = x.a.head_dim - column;
    MK_UNROLL
    for (u32 step = 0; step < 2; ++step) {
      u32x4 value[4];  // of positions 2t, 2t + 1, 2t + 8 and 2t + 9 of 16
      MK_UNROLL
      for (u32 i = 0; i < 4; ++i) {
        const u32 index = x.nearest_seen(kHalf * step + 2 * t(x) + i / 2 * 8 + i % 2);
        value[i] = load8<C>(rows, index, 8 * g(x), columns);
      }
      MK_UNROLL
      for (u32 j = 0; j < 8; ++j) {
        const auto both = [&](u32 p, u32 q) {
          return j % 2 == 0 ? (p & 0xffffu) | q << 16 : p >> 16 | (q & 0xffff0000u);
        };
        Half::mma(sum[j], weight[step], both(value[0][j / 2], value[1][j / 2]),
                  both(value[2][j / 2], value[3][j / 2]));
      }
    }
  }

  MK_INLINE void put_sums(const Warp& x, u32 half) const {
    const auto mine = [&](u32 i, u32 j) { return half == 0 ? sum[j][i] : sum[j][2 + i]; };
    MK_UNROLL
    for (u32 i = 0; i < 2; ++i) MK_UNROLL
    for (u32 j = 0; j < 8; j += 4)
      *(AS3 f32x4*)x.scratch.sum(x.warp(), g(x), 16 * t(x) + 8 * i + j) =
          f32x4{mine(i, j), mine(i, j + 1), mine(i, j + 2), mine(i, j + 3)};
  }
};

}  // namespace mk
