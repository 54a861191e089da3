// Products of bf16 and E4M3 by AMX (amx.h), for any number of tokens. Two strips are multiplied with two
// passes of 16 tokens at once, whose sums four tiles hold. Weights of bf16 are multiplied where they lie.
// Those of E4M3 are unpacked to the worker's memory.
//
// Blocks of eight strips go through a K slice together, with all tokens. So the tokens' columns of a K slice
// come from the second cache, and other weights only once from memory. Codes are unpacked once for all
// tokens.
//
// A sum of a strip and token depends neither on the strips and tokens beside it, nor on how many there are.
#pragma once

#include "codegen/processor/amx.h"
#include "codegen/processor/product_unpacked.h"

#ifdef __AMX_BF16__
namespace mk {

constexpr u32 kAmxStrips = 2;          // multiplied at once
constexpr u32 kAmxPasses = 2;          // of kAmxRows tokens, multiplied at once
constexpr u32 kAmxBlockStrips = 8;     // of a block
constexpr u32 kAmxChunkCols = 256;     // most columns of E4M3 that are unpacked at once
constexpr u32 kAmxAheadBytes = 16384;  // between what is multiplied of a strip and what is prefetched of it
static_assert(kAmxRows <= kSpareRows && kAmxCols % kStripRows == 0 && kAmxChunkCols % kAmxCols == 0);

// AmxMemory is the memory of a worker for a block.
struct alignas(64) AmxMemory {
  char weights[kAmxBlockStrips][kAmxChunkCols * kStripRows * sizeof(uint16_t)];
  StripGroup groups[kAmxBlockStrips][kAmxChunkCols / kAmxCols];
  f32x16 of_group[kAmxPasses * kAmxRows];                 // sums of a group of columns, by token
  f32x16 of_slice[2][kAmxStrips][kAmxPasses * kAmxRows];  // sums of two K slices that ended last, by token
  f32x16 sums[kAmxBlockStrips][kMaxTokens + kSpareRows];  // of a K slice, by token
  f32x16 totals[kAmxBlockStrips][kMaxTokens + kSpareRows];
};
static_assert(sizeof(AmxMemory) <= kUnpackedBytes);
MK_INLINE AmxMemory& amx_memory_of(const Worker& w) {
  return *(AmxMemory*)plain(w.shared + kUnpackedOffset);
}

// Tiles 0 to 3 hold the sums of strip s and pass p: tile 2 s + p. Tiles 4 and 5 hold tokens, 6 and 7 strips.
// AmxBlock is `Strips` strips and `Passes` passes.
template <u32 Strips, u32 Passes>
struct AmxBlock {
  MK_INLINE static void clear(u32 strip) {
    if (strip == 0) {
      _tile_zero(0);
      if constexpr (Passes == 2) _tile_zero(1);
    } else {
      _tile_zero(2);
      if constexpr (Passes == 2) _tile_zero(3);
    }
  }
  MK_INLINE static void load(u32 strip, const f32x16* sums) {
    if (strip == 0) {
      _tile_loadd(0, sums, kAmxRowBytes);
      if constexpr (Passes == 2) _tile_loadd(1, sums + kAmxRows, kAmxRowBytes);
    } else {
      _tile_loadd(2, sums, kAmxRowBytes);
      if constexpr (Passes == 2) _tile_loadd(3, sums + kAmxRows, kAmxRowBytes);
    }
  }
  MK_INLINE static void store(u32 strip, f32x16* sums) {
    if (strip == 0) {
      _tile_stored(0, sums, kAmxRowBytes);
      if constexpr (Passes == 2) _tile_stored(1, sums + kAmxRows, kAmxRowBytes);
    } else {
      _tile_stored(2, sums, kAmxRowBytes);
      if constexpr (Passes == 2) _tile_stored(3, sums + kAmxRows, kAmxRowBytes);
    }
  }
  // add() adds the products of kAmxCols columns.
  MK_INLINE static void add(const char* const (&weights)[kAmxStrips], const char* const (&x)[kAmxPasses]) {
    _tile_loadd(6, weights[0], kAmxRowBytes);
    _tile_loadd(4, x[0], kAmxRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (Strips == 2) {
      _tile_loadd(7, weights[1], kAmxRowBytes);
      _tile_dpbf16ps(2, 4, 7);
    }
    if constexpr (Passes == 2) {
      _tile_loadd(5, x[1], kAmxRowBytes);
      _tile_dpbf16ps(1, 5, 6);
      if constexpr (Strips == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
};

// AmxProduct is the product of strips with `tokens` tokens of `rows`, over K slices [from, to).
template <class W>
struct AmxProduct {
  typedef Steps<W::type> S;
  static_assert(!W::grouped || W::row.group_cols == kAmxCols);
  AmxMemory& memory;
  const Rows<W> rows;
  u32 tokens;
  u64 strip_bytes;
  u32 from, to;

  // Chunk is `cols` columns of a K slice of some strips, from `col` on. Weights of bf16 that do not fill the
  // last tile are in `tail`, with zeros behind them.
  struct Chunk {
    const char* strips;                   // where the first strip begins
    const char* packed[kAmxBlockStrips];  // what is unpacked next
    const char *weights[kAmxBlockStrips], *tail[kAmxBlockStrips];
    u32 k_slice, col, cols;
    bool starts, ends;  // the K slice
    bool alone;         // the K slice's sums are left in `totals` alone, and not added to what is there
  };

  // unpack_tile() unpacks the i-th kAmxCols columns of a chunk of strip s. Zeros follow the last ones.
  MK_INLINE void unpack_tile(Chunk& c, u32 s, u32 i) const {
    const u32 cols = min(kAmxCols, c.cols - i * kAmxCols);
    char* const to = memory.weights[s] + i * kAmxBytes;
    typename S::Seen seen;
    c.packed[s] = unpack<W>(to, &memory.groups[s][i], c.packed[s], cols, seen, kAmxAheadBytes);
    fill_tile(to, cols * kStripRows * sizeof(uint16_t));
  }
  MK_INLINE static void fill_tile(char* tile, u32 from) {
    for (; from < kAmxBytes; from += kAmxRowBytes) store(tile + from, u32x16(0));
  }

  // multiply() adds the products of a chunk to the tiles, kAmxCols columns at a time. It calls before(i)
  // ahead of the i-th such columns, and behind(i) after them.
  template <u32 Strips, u32 Passes, class Before, class Behind>
  MK_INLINE void multiply(const Chunk& c, u32 strip, u32 token, const Before& before,
                          const Behind& behind) const {
    static_assert(Rows<W>::kChunkWords * sizeof(typename S::X) == kAmxRowBytes);
    const u64 pass_bytes = (u64)kAmxRows * rows.stride * sizeof(typename S::X);
    const char* const x =
        (const char*)rows.of_pass(token, kAmxRows, c.k_slice) + (u64)c.col / kAmxCols * kAmxBytes;
    const char *const first = c.weights[strip], *const second = c.weights[strip + Strips - 1];
    const u32 count = c.cols / kAmxCols;
    MK_ROLLED
    for (u32 i = 0; i < count; ++i) {
      const u64 at = (u64)i * kAmxBytes;
      before(i);
      AmxBlock<Strips, Passes>::add({first + at, second + at}, {x + at, x + pass_bytes + at});
      behind(i);
    }
    const u64 at = (u64)count * kAmxBytes;
    if (c.cols % kAmxCols != 0)
      AmxBlock<Strips, Passes>::add({c.tail[strip], c.tail[strip + Strips - 1]},
                                    {x + at, x + pass_bytes + at});
  }

  // Sums is the sums of a K slice of some strips and tokens, which are to be added to `totals`. They are
  // added behind the next multiplications, because tiles are slow to leave their registers. They are `of`
  // times `scales` where these are the sums of one group of columns.
  struct Sums {
    const f32x16* of[kAmxStrips];
    f32x16* total[kAmxStrips];
    StripGroup scales[kAmxStrips];
    bool scaled[kAmxStrips];
    const char* strips;  // where the first strip begins
    u32 count = 0, tokens;
    bool alone;
    u32 parity = 0;  // of memory.of_slice that `of` is in
  };
  MK_INLINE void add_to_totals(Sums& sums) const {
    MK_ROLLED
    for (u32 s = 0; s < sums.count; ++s) {
      f32x16 scales;
      if constexpr (W::scaled) scales = row_scales<W>(sums.strips + s * strip_bytes, strip_bytes);
      const f32x16* const of = sums.of[s];
      f32x16* const total = sums.total[s];
      const auto each = [&](auto add) {
        for (u32 t = 0; t < sums.tokens; ++t) {
          f32x16 sum = of[t];
          if constexpr (W::grouped)
            if (sums.scaled[s]) sum = S::add_group(all_lanes(0), sum, sums.scales[s], {});
          if constexpr (W::scaled) sum = fma(sum, scales, all_lanes(0));
          total[t] = add(total[t], sum);
        }
      };
      if (sums.alone)
        each([](f32x16, f32x16 sum) { return all_lanes(0) + sum; });
      else
        each([](f32x16 before, f32x16 sum) { return before + sum; });
    }
    sums.count = 0;
  }

  // add_chunk() adds the products of a chunk of strips from `strip` on with tokens from `token` on to their
  // sums. Groups of columns that have the same scales are added as one. `Unpacks` says that each tile of
  // codes is unpacked ahead of the multiplication before its own.
  template <u32 Strips, u32 Passes, bool Unpacks>
  MK_INLINE void add_chunk(Chunk& c, u32 strip, u32 token, Sums& pending) const {
    typedef AmxBlock<Strips, Passes> Tiles;
    const u32 count = min(Passes * kAmxRows, tokens - token), parity = pending.parity ^ 1;
    const auto sums = [&](u32 s) { return memory.sums[strip + s] + token; };
    const auto unpack_tiles = [&](u32 i) {
      if (Unpacks && i * kAmxCols < c.cols)
        for (u32 s = 0; s < Strips; ++s) unpack_tile(c, strip + s, i);
    };
    unpack_tiles(0);
    MK_UNROLL
    for (u32 s = 0; s < Strips; ++s)
      if (W::grouped || c.starts)
        Tiles::clear(s);
      else
        Tiles::load(s, sums(s));
    const bool prefetches = S::as_packed && token == 0;
    const auto before = [&](u32 i) {
      unpack_tiles(i + 1);
      if (!prefetches) return;
      MK_UNROLL
      for (u32 line = 0; line < Strips * kAmxRows; ++line)
        prefetch_line(c.weights[strip + line / kAmxRows] + (u64)i * kAmxBytes +
                      line % kAmxRows * kAmxRowBytes + kAmxAheadBytes);
    };
    bool some[kAmxStrips] = {!c.starts, !c.starts};  // whether sums() has groups of this K slice
    const StripGroup* last[kAmxStrips] = {};         // the group whose sums are in the tiles at the end
    multiply<Strips, Passes>(c, strip, token, before, [&](u32 i) {
      if constexpr (W::grouped) {
        MK_UNROLL
        for (u32 s = 0; s < Strips; ++s) {
          const StripGroup* with = &memory.groups[strip + s][i];
          const bool at_end = (i + 1) * kAmxCols == c.cols;
          if (!at_end && __builtin_reduce_and(with[0].scales == with[1].scales)) continue;
          if (at_end && c.ends && !some[s]) {
            last[s] = with;
            continue;
          }
          Tiles::store(s, memory.of_group);
          Tiles::clear(s);
          for (u32 t = 0; t < count; ++t)
            sums(s)[t] = S::add_group(some[s] ? sums(s)[t] : all_lanes(0), memory.of_group[t], *with, {});
          some[s] = true;
        }
      }
    });
    add_to_totals(pending);
    bool later = true;
    MK_UNROLL
    for (u32 s = 0; s < Strips; ++s) {
      const bool in_tiles = W::grouped ? last[s] != nullptr : c.ends;
      f32x16* const to = in_tiles ? memory.of_slice[parity][s] : sums(s);
      if (!W::grouped || in_tiles) Tiles::store(s, to);
      if (last[s]) pending.scales[s] = *last[s];
      pending.scaled[s] = last[s] != nullptr;
      pending.of[s] = to, pending.total[s] = memory.totals[strip + s] + token;
      later = later && in_tiles;
    }
    if (!c.ends) return;
    pending.strips = c.strips + strip * strip_bytes;
    pending.count = Strips, pending.tokens = count, pending.alone = c.alone, pending.parity = parity;
    if (!later) add_to_totals(pending);
  }
  // take() is add_chunk() for as many passes as there are from `token` on, up to kAmxPasses.
  template <u32 Strips>
  MK_INLINE void take(Chunk& c, u32 strip, u32 token, Sums& pending) const {
    if (tokens <= kAmxRows)
      add_chunk<Strips, 1, !S::as_packed>(c, strip, token, pending);
    else if (tokens - token <= kAmxRows)
      add_chunk<Strips, 1, false>(c, strip, token, pending);
    else
      add_chunk<Strips, 2, false>(c, strip, token, pending);
  }

  // set_weights() finds the chunk's weights of strip s. Codes are unpacked here where there are more tokens
  // than a pass takes.
  MK_INLINE void set_weights(Chunk& c, u32 s) const {
    const u32 whole = c.cols / kAmxCols * kAmxBytes, rest = c.cols * kStripRows * sizeof(uint16_t) - whole;
    c.weights[s] = memory.weights[s], c.tail[s] = memory.weights[s] + whole;
    if constexpr (S::as_packed) {
      will_read(c.packed[s], whole + rest);
      c.weights[s] = c.packed[s], c.tail[s] = memory.weights[s];
      for (u32 i = 0; i < rest; i += kAmxRowBytes)
        store(memory.weights[s] + i, load<u32x16>(c.packed[s] + whole + i));
      if (rest != 0) fill_tile(memory.weights[s], rest);
      c.packed[s] += whole + rest;
    } else if (tokens > kAmxRows) {
      for (u32 i = 0; i * kAmxCols < c.cols; ++i) unpack_tile(c, s, i);
    }
  }

  // add_k_slice() adds the sums of a K slice of `count` strips to memory.totals, and leaves the last ones in
  // `pending`. The first strip begins at `strips`.
  __attribute__((noinline)) void add_k_slice(const char* strips, u32 count, u32 k_slice, bool alone,
                                             Sums& pending) const {
    const u32 cols = rows.padded / kKSlices, max = S::as_packed ? cols : kAmxChunkCols;
    Chunk c{};
    c.strips = strips, c.k_slice = k_slice, c.alone = alone;
    for (u32 s = 0; s < count; ++s)
      c.packed[s] = strips + s * strip_bytes + k_slice * tile_bytes(W::row, cols);
    for (c.col = 0; c.col < cols; c.col += max) {
      c.cols = min(max, cols - c.col);
      c.starts = c.col == 0, c.ends = c.col + c.cols == cols;
      for (u32 s = 0; s < count; ++s) set_weights(c, s);
      for (u32 token = 0; token < tokens; token += kAmxPasses * kAmxRows) {
        u32 strip = 0;
        for (; strip + kAmxStrips <= count; strip += kAmxStrips) take<kAmxStrips>(c, strip, token, pending);
        if (strip < count) take<1>(c, strip, token, pending);
      }
    }
  }

  // operator() multiplies strips [strip, end) of `weights`. store(strip, 0, tokens, sums) gets the sums over
  // all K slices of each strip, or store_slice(strip, k_slice, token, sums) those of single ones. One pass
  // has few sums, so that two strips make a block.
  template <class Store, class StoreSlice>
  MK_INLINE void operator()(const char* weights, u32 strip, u32 end, const Store& store,
                            const StoreSlice& store_slice) const {
    const AmxTiles tiles;
    Sums pending;
    const bool all = from == 0 && to == kKSlices;
    const u32 block = tokens <= kAmxRows ? kAmxStrips : kAmxBlockStrips;
    MK_ROLLED
    for (; strip < end; strip += block) {
      const u32 count = min(block, end - strip);
      for (u32 k_slice = from; k_slice < to; ++k_slice) {
        add_k_slice(weights + strip * strip_bytes, count, k_slice, !all || k_slice == 0, pending);
        if (all && k_slice + 1 != to) continue;
        add_to_totals(pending);
        if (all) continue;
        MK_ROLLED
        for (u32 i = 0; i < count * tokens; ++i)
          store_slice(strip + i / tokens, k_slice, i % tokens, memory.totals[i / tokens][i % tokens]);
      }
      if (!all) continue;
      MK_ROLLED
      for (u32 s = 0; s < count; ++s) store(strip + s, 0, tokens, memory.totals[s]);
    }
  }
};

}  // namespace mk
#endif
