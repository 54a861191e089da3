// Attention on matrix instructions (m16n8k16), for caches of 2 bytes an element and less: rows of queries are
// those of the first operand, 16 at a time. The products' inner index and the values' columns may go in any
// order, so each lane gets 8 neighbouring elements of a key or value by one load, and none move between
// lanes: lane 4g + t has elements 8t of a key's 32, and columns 8g of a value's 64.
#pragma once

#include "codegen/device/attend.h"

namespace mk {

constexpr u32 kKeyStep = 32;  // elements of a key that 4 lanes load at a time

template <class C>
struct MmaForm {
  static constexpr u32 kRows = kBlockRows;
  using Half = typename C::Half;
  using S = StageRows<C>;

  f32 score[4][4];  // of positions 8j + 2t and 8j + 2t + 1: row g, then row g + 8
  u32x4 weight[2];  // of 16 positions each, as first operands
  f32 sum[8][4];    // columns 16t + j and 16t + 8 + j: row g, then row g + 8

  MK_INLINE static u32 g(const Warp& x) { return x.lane() / 4; }
  MK_INLINE static u32 t(const Warp& x) { return x.lane() % 4; }

  MK_INLINE static u32 padded(u32 head_dim) { return (head_dim + kKeyStep - 1) / kKeyStep * kKeyStep; }
  // First operands as lanes take them, 16 bytes each, of half a key step after the other: elements 8t to 8t +
  // 3 or the 4 behind them, two of row g, two of row g + 8, and so on.
  MK_INLINE static void put_query(AS3 char* q, u32 row, u32 i, f32 value) {
    const u32 operand = i / kKeyStep * 2 + i % 8 / 4, lane = row % kSumRows * 4 + i % kKeyStep / 8,
              word = i % 4 / 2 * 2 + row / kSumRows;
    *(AS3 uint16_t*)(q + (operand * kWarpLanes + lane) * 16 + word * 4 + i % 2 * 2) =
        (uint16_t)Half::pack(value, 0);
  }
  // What lies behind a query meets zeros, and must be a number.
  MK_INLINE static void end_query(const Worker& w, AS3 char* q, u32 row, u32 head_dim) {
    for (u32 i = head_dim + w.lane(); i < padded(head_dim); i += kWarpLanes) put_query(q, row, i, 0);
  }

  // Clears what no row sees of the warp's positions in a stage, and the columns behind the head's end, so
  // that whatever was there meets weights and queries of 0 as numbers.
  MK_INLINE static void clear_unseen(const Warp& x, u32 column, AS3 char* rows) {
    if (x.sees_all() && column + kSumColumns <= x.a.head_dim) return;
    const u32 byte = x.lane() % S::kChunks * 16;
    MK_ROLLED
    for (u32 row = x.lane() / S::kChunks; row < kWarpLanes; row += kWarpLanes / S::kChunks)
      if (!x.b.sees(x.first + row, x.first + row + 1) || column * C::bytes + byte >= x.a.head_dim * C::bytes)
        *(AS3 u32x4*)(rows + S::at(row, byte)) = u32x4(0);
  }

  MK_INLINE void begin() {
    MK_UNROLL
    for (u32 j = 0; j < 4; ++j) MK_UNROLL
    for (u32 i = 0; i < 4; ++i) score[j][i] = 0;
  }

  // Columns [column, column + kSumColumns) of keys.
  MK_INLINE void add_keys(const Warp& x, AS3 const char* rows, u32 column) {
    const u32 columns = min(x.a.head_dim - column, kSumColumns), swizzle = S::swizzle(g(x));
    AS3 const u32x4* query = (AS3 const u32x4*)x.scratch.q + column / kKeyStep * 2 * kWarpLanes + x.lane();
    rows += g(x) * S::kPitch;
    MK_ROLLED
    for (u32 step = 0; step < columns; step += kKeyStep, query += 2 * kWarpLanes) {
      AS3 const char* at = rows + ((step + 8 * t(x)) * C::bytes ^ swizzle);
      const u32x4 low = query[0], high = query[kWarpLanes];
      u32x4 k[4];
      MK_UNROLL
      for (u32 j = 0; j < 4; ++j) k[j] = C::load8(at + 8 * j * S::kPitch);
      MK_UNROLL
      for (u32 j = 0; j < 4; ++j) {
        Half::mma(score[j], low, k[j][0], k[j][1]);
        Half::mma(score[j], high, k[j][2], k[j][3]);
      }
    }
  }

  // Whether there are rows 8 and up: with groups of 8 heads and less a token alone has none.
  MK_INLINE static bool has(const Warp& x, u32 half) { return half * kSumRows < x.b.count; }

  MK_INLINE void hide_unseen(const Warp& x, f32 scale) {
    MK_UNROLL
    for (u32 half = 0; half < 2; ++half) {
      if (!has(x, half)) continue;
      const Seen seen = x.b.seen_by(x.a, g(x) + half * kSumRows);
      MK_UNROLL
      for (u32 j = 0; j < 4; ++j) MK_UNROLL
      for (u32 i = 0; i < 2; ++i) {
        f32& of = score[j][2 * half + i];
        of = seen(x.first + 8 * j + 2 * t(x) + i) ? of * scale : kNone;
      }
    }
  }

  MK_INLINE void put_greatest(const Warp& x) {
    MK_UNROLL
    for (u32 half = 0; half < 2; ++half) {
      if (!has(x, half)) continue;
      f32 max = kNone;
      MK_UNROLL
      for (u32 j = 0; j < 4; ++j)
        max = __builtin_fmaxf(max, __builtin_fmaxf(score[j][2 * half], score[j][2 * half + 1]));
      max = __builtin_fmaxf(max, mk_shuffle_xor(max, 2));
      max = __builtin_fmaxf(max, mk_shuffle_xor(max, 1));
      if (t(x) == 0) x.scratch.greatest(g(x) + half * kSumRows)[x.warp()] = max;
    }
  }

  // Rounded, as they are multiplied; so is their total.
  MK_INLINE void weigh(const Warp& x) {
    weight[0] = weight[1] = u32x4(0);
    MK_UNROLL
    for (u32 half = 0; half < 2; ++half) {
      if (!has(x, half)) continue;
      const f32 all = x.scratch.greatest_of_all(g(x) + half * kSumRows);
      f32 total = 0;
      MK_UNROLL
      for (u32 j = 0; j < 4; ++j) {
        const u32 pair =
            Half::pack(partial_weight(score[j][2 * half], all), partial_weight(score[j][2 * half + 1], all));
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

  MK_INLINE void add_values(const Warp& x, AS3 const char* rows, u32) {
    AS3 const char* at[2];  // of even positions, and of odd ones
    MK_UNROLL
    for (u32 i = 0; i < 2; ++i)
      at[i] = rows + S::at(2 * t(x), 8 * g(x) * C::bytes ^ S::swizzle(i)) + i * S::kPitch;
    MK_UNROLL
    for (u32 step = 0; step < 2; ++step) {
      u32x4 value[4];  // of positions 2t, 2t + 1, 2t + 8 and 2t + 9 of 16
      MK_UNROLL
      for (u32 i = 0; i < 4; ++i) value[i] = C::load8(at[i % 2] + (kHalf * step + i / 2 * 8) * S::kPitch);
      MK_UNROLL
      for (u32 j = 0; j < 8; ++j) {
        const auto both = [&](u32 p, u32 q) {
          return j % 2 == 0 ? mk_low_halves(p, q) : mk_high_halves(p, q);
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
