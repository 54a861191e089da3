// Attention multiplies caches of at most 2 bytes per element by mma.m16n8k16. Query rows are the rows of the
// A operand, 16 at a time. The inner index of the products and the columns of values may go in any order.
// Each lane therefore gets 8 neighbouring elements of a key or value by one load, and none move between
// lanes. Lane 4g + t has elements 8t .. 8t + 7 of each 32 of a key. It also has columns 8g .. 8g + 7 of each
// 64 of a value.
#pragma once

#include "codegen/device/attend.h"

namespace mk {

constexpr u32 kKeyStep = 32;  // elements of a key that 4 lanes load at a time

template <class C>
struct MmaForm {
  static constexpr u32 kRows = kQueryTileRows;
  using Half = typename C::Half;
  using S = StageRows<C>;

  f32 score[4][4];  // positions 8j + 2t and 8j + 2t + 1: row g, then row g + 8
  u32x4 weight[2];  // A operands of 16 positions each
  f32 sum[8][4];    // columns 16t + j and 16t + 8 + j: row g, then row g + 8

  MK_INLINE static u32 g(const Warp& warp) { return warp.lane() / 4; }
  MK_INLINE static u32 t(const Warp& warp) { return warp.lane() % 4; }

  MK_INLINE static u32 padded(u32 head_dim) { return (head_dim + kKeyStep - 1) / kKeyStep * kKeyStep; }
  // put_query() stores queries as A operands: 16 bytes for each lane, half a key step after the other. An
  // operand has elements 8t to 8t + 3 of a key step, or the 4 behind them. The words of a lane alternate
  // between two elements of row g and two of row g + 8.
  MK_INLINE static void put_query(AS3 char* q, u32 row, u32 i, f32 value) {
    const u32 operand = i / kKeyStep * 2 + i % 8 / 4, lane = row % kSumRows * 4 + i % kKeyStep / 8,
              word = i % 4 / 2 * 2 + row / kSumRows;
    *(AS3 uint16_t*)(q + (operand * kWarpLanes + lane) * 16 + word * 4 + i % 2 * 2) =
        (uint16_t)Half::pack(value, 0);
  }
  // end_query() clears the elements behind a query. The keys are 0 there, and NaN times 0 would be NaN.
  MK_INLINE static void end_query(const Worker& w, AS3 char* q, u32 row, u32 head_dim) {
    for (u32 i = head_dim + w.lane(); i < padded(head_dim); i += kWarpLanes) put_query(q, row, i, 0);
  }

  // clear_unseen() clears the warp's positions that no row sees, and the columns behind the head's end. Stale
  // bytes would meet weights and queries of 0, and NaN times 0 would be NaN.
  MK_INLINE static void clear_unseen(const Warp& warp, u32 column, AS3 char* rows) {
    if (warp.sees_all() && column + kValueColumns <= warp.a.head_dim) return;
    const u32 byte = warp.lane() % S::kChunks * kChunkBytes;
    MK_ROLLED
    for (u32 row = warp.lane() / S::kChunks; row < kWarpLanes; row += kWarpLanes / S::kChunks)
      if (!warp.tile.sees(warp.first + row, warp.first + row + 1) ||
          column * C::bytes + byte >= warp.a.head_dim * C::bytes)
        *(AS3 u32x4*)(rows + S::at(row, byte)) = u32x4(0);
  }

  MK_INLINE void begin() {
    MK_UNROLL
    for (u32 j = 0; j < 4; ++j) MK_UNROLL
    for (u32 i = 0; i < 4; ++i) score[j][i] = 0;
  }

  // add_keys() multiplies columns [column, column + kValueColumns) of the keys.
  MK_INLINE void add_keys(const Warp& warp, AS3 const char* rows, u32 column) {
    const u32 columns = min(warp.a.head_dim - column, kValueColumns), swizzle = S::swizzle(g(warp));
    AS3 const u32x4* query =
        (AS3 const u32x4*)warp.scratch.q + column / kKeyStep * 2 * kWarpLanes + warp.lane();
    rows += g(warp) * S::kPitch;
    MK_ROLLED
    for (u32 step = 0; step < columns; step += kKeyStep, query += 2 * kWarpLanes) {
      AS3 const char* at = rows + ((step + 8 * t(warp)) * C::bytes ^ swizzle);
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

  // has() tells whether a half has rows. The second half, rows 8 and up, is empty for one token of a group of
  // at most 8 heads.
  MK_INLINE static bool has(const Warp& warp, u32 half) { return half * kSumRows < warp.tile.count; }

  MK_INLINE void hide_unseen(const Warp& warp, f32 scale) {
    MK_UNROLL
    for (u32 half = 0; half < 2; ++half) {
      if (!has(warp, half)) continue;
      const Seen seen = warp.tile.seen_by(warp.a, g(warp) + half * kSumRows);
      MK_UNROLL
      for (u32 j = 0; j < 4; ++j) MK_UNROLL
      for (u32 i = 0; i < 2; ++i) {
        f32& of = score[j][2 * half + i];
        of = seen(warp.first + 8 * j + 2 * t(warp) + i) ? of * scale : kNoScore;
      }
    }
  }

  MK_INLINE void put_greatest(const Warp& warp) {
    MK_UNROLL
    for (u32 half = 0; half < 2; ++half) {
      if (!has(warp, half)) continue;
      f32 max = kNoScore;
      MK_UNROLL
      for (u32 j = 0; j < 4; ++j)
        max = __builtin_fmaxf(max, __builtin_fmaxf(score[j][2 * half], score[j][2 * half + 1]));
      max = __builtin_fmaxf(max, mk_shuffle_xor(max, 2));
      max = __builtin_fmaxf(max, mk_shuffle_xor(max, 1));
      if (t(warp) == 0) warp.scratch.greatest(g(warp) + half * kSumRows)[warp.number()] = max;
    }
  }

  // weigh() rounds the weights as they are multiplied. The total is that of the rounded weights.
  MK_INLINE void weigh(const Warp& warp) {
    weight[0] = weight[1] = u32x4(0);
    MK_UNROLL
    for (u32 half = 0; half < 2; ++half) {
      if (!has(warp, half)) continue;
      const f32 all = warp.scratch.greatest_of_all(g(warp) + half * kSumRows);
      f32 total = 0;
      MK_UNROLL
      for (u32 j = 0; j < 4; ++j) {
        const u32 pair =
            Half::pack(partial_weight(score[j][2 * half], all), partial_weight(score[j][2 * half + 1], all));
        weight[j / 2][j % 2 * 2 + half] = pair;
        total += Half::low(pair) + Half::high(pair);
      }
      total = mk_quad_sum(total);
      if (t(warp) == 0) warp.scratch.total(g(warp) + half * kSumRows)[warp.number()] = total;
    }
  }

  MK_INLINE void begin_sums() {
    MK_UNROLL
    for (u32 j = 0; j < 8; ++j) MK_UNROLL
    for (u32 i = 0; i < 4; ++i) sum[j][i] = 0;
  }

  MK_INLINE void add_values(const Warp& warp, AS3 const char* rows, u32) {
    AS3 const char* at[2];  // the first even position, and the first odd one
    MK_UNROLL
    for (u32 i = 0; i < 2; ++i)
      at[i] = rows + S::at(2 * t(warp), 8 * g(warp) * C::bytes ^ S::swizzle(i)) + i * S::kPitch;
    MK_UNROLL
    for (u32 step = 0; step < 2; ++step) {
      u32x4 value[4];  // positions 2t, 2t + 1, 2t + 8 and 2t + 9 of 16
      MK_UNROLL
      for (u32 i = 0; i < 4; ++i)
        value[i] = C::load8(at[i % 2] + (kPlacePositions * step + i / 2 * 8) * S::kPitch);
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

  MK_INLINE void put_sums(const Warp& warp, u32 half) const {
    const auto mine = [&](u32 i, u32 j) { return half == 0 ? sum[j][i] : sum[j][2 + i]; };
    MK_UNROLL
    for (u32 i = 0; i < 2; ++i) MK_UNROLL
    for (u32 j = 0; j < 8; j += 4)
      *(AS3 f32x4*)warp.scratch.sum(warp.number(), g(warp), 16 * t(warp) + 8 * i + j) =
          f32x4{mine(i, j), mine(i, j + 1), mine(i, j + 2), mine(i, j + 3)};
  }
};

}  // namespace mk
