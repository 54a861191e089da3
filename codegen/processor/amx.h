// AMX has eight tiles, registers of 16 rows of 64 bytes. TDPBF16PS multiplies 16 tokens of 32 columns with 16
// rows of a strip (Intel SDM, volume 2, "TDPBF16PS"). One tile has the tokens. Another has 16 pairs of
// columns, each with all rows. The products are added to a tile of f32 sums, [token][row].
//
// Products of even columns and those of odd columns are added apart, each in the order of the columns. Then
// both sums are added to the tile's. Subnormal numbers count as 0.
#pragma once

#include "codegen/processor/vector.h"

namespace mk {

constexpr u32 kAmxRows = 16;                        // of a tile
constexpr u32 kAmxRowBytes = 64;                    // of a row of a tile
constexpr u32 kAmxBytes = kAmxRows * kAmxRowBytes;  // of a tile
constexpr u32 kAmxCols = 32;                        // columns that one multiplication takes

#ifdef __AMX_BF16__
// AmxConfig is the operand of LDTILECFG. All tiles are whole.
struct alignas(64) AmxConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
  constexpr AmxConfig() {
    for (u32 tile = 0; tile < 8; ++tile) row_bytes[tile] = kAmxRowBytes, rows[tile] = kAmxRows;
  }
};

// AmxTiles makes the tiles usable by the thread while it lives. Its end lets the system save less at a change
// of threads.
struct AmxTiles {
  MK_INLINE AmxTiles() {
    static constexpr AmxConfig config;
    _tile_loadconfig(&config);
  }
  MK_INLINE ~AmxTiles() { _tile_release(); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
};
#endif

}  // namespace mk
