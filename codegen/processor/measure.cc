// The loops of codegen/processor_loops.h are compiled here for one instruction set. Products are those of the
// task bodies. The build names MK_LOOPS and MK_ATTEND_LOOP, and the namespace, after the instruction set. No
// two instruction sets therefore share an inline function.
#include "codegen/processor/product_amx.h"
#include "codegen/processor_loops.h"

namespace mk {

namespace {

u64 read(const void* from, u64 bytes) {
  const char* at = (const char*)from;
  u32x16 sum[4] = {};
  for (const char* end = at + bytes; at < end; at += sizeof sum) {
    MK_UNROLL
    for (u32 i = 0; i < 4; ++i) sum[i] ^= load<u32x16>(at + i * sizeof(u32x16));
  }
  return __builtin_reduce_xor(sum[0] ^ sum[1] ^ sum[2] ^ sum[3]);
}

// kept() hides a value from the optimiser.
template <class V>
MK_INLINE void keep(V& value) {
  asm volatile("" : "+m"(value));
}

constexpr u32 kSumsAtOnce = 6 * sizeof(f32x16) / 64 * (kGroupTokens / 4);  // half of the registers, or more

u64 multiply_add_f32(u64 rounds) {
  f32x16 sum[kSumsAtOnce] = {}, a = all_lanes(0.5f), b = all_lanes(1);
  keep(a);
  keep(b);
  MK_ROLLED
  for (u64 i = 0; i < rounds; ++i) {
    MK_UNROLL
    for (u32 k = 0; k < kSumsAtOnce; ++k) sum[k] = fma(a, b, sum[k]);
  }
  keep(sum);
  return rounds * kSumsAtOnce * kVector;
}

u64 multiply_add(bool bf16, u64 rounds) {
  if (!bf16) return multiply_add_f32(rounds);
#ifdef __AMX_BF16__
  const AmxTiles tiles;
  alignas(64) char operands[2 * kAmxBytes] = {};
  MK_ROLLED
  for (u64 i = 0; i < rounds; ++i)
    AmxBlock<2, 2>::add({operands, operands}, {operands + kAmxBytes, operands + kAmxBytes});
  return rounds * 4 * kAmxRows * kAmxRows * kAmxCols;
#elif defined __AVX512BF16__
  f32x16 sum[kSumsAtOnce] = {};
  u32x16 a = u32x16(0x3f003f00), b = u32x16(0x3f803f80);
  keep(a);
  keep(b);
  MK_ROLLED
  for (u64 i = 0; i < rounds; ++i) {
    MK_UNROLL
    for (u32 k = 0; k < kSumsAtOnce; ++k) sum[k] = Steps<WeightType::kBf16>::step(sum[k], a, b);
  }
  keep(sum);
  return rounds * kSumsAtOnce * kVector * 2;
#else
  return 0;
#endif
}

#ifdef __AMX_BF16__
template <class W>
u64 multiply_by_amx(u32 tokens, u32 strips, u32 cols, const char* weights, char* x, f32* sums) {
  AmxMemory& memory = *(AmxMemory*)(x + (u64)ProcessorLoops::kMany * (cols + 64) * sizeof(f32));
  const u64 strip_bytes = packed_shape(kStripRows, cols, W::type).strip_bytes;
  const AmxProduct<W> product{memory, Rows<W>(x, cols), tokens, strip_bytes, 0, kKSlices};
  product(
      weights, 0, strips,
      [&](u32 strip, u32, u32, const f32x16* of) {
        for (u32 i = 0; i < tokens; ++i) store(sums + (strip * tokens + i) * kStripRows, of[i]);
      },
      [](u32, u32, u32, f32x16) {});
  return (u64)strips * kStripRows * cols * tokens;
}
#endif

template <class W, u32 Tokens>
u64 multiply_strips(u32 strips, u32 cols, const char* weights, char* x, f32* sums) {
  constexpr u32 kMost = together<W>(Tokens);
  static_assert(ProcessorLoops::kStrips % kMost == 0);
  const Rows<W> rows(x, cols);
  const u64 strip_bytes = packed_shape(kStripRows, cols, W::type).strip_bytes;
  for (u32 strip = 0; strip < strips; strip += kMost) {
    f32x16 total[kMost][Tokens] = {};
    multiply<W, kMost, Tokens>(weights + strip * strip_bytes, strip_bytes, rows, 0, 0, kKSlices,
                               [&](u32, const f32x16(&sum)[kMost][Tokens]) {
                                 MK_UNROLL
                                 for (u32 i = 0; i < kMost * Tokens; ++i)
                                   total[i / Tokens][i % Tokens] += sum[i / Tokens][i % Tokens];
                               });
    for (u32 i = 0; i < kMost * Tokens; ++i)
      store(sums + (strip * Tokens + i) * kStripRows, total[i / Tokens][i % Tokens]);
  }
  return (u64)strips * kStripRows * cols * Tokens;
}

template <class W>
u64 multiply_many(u32 strips, u32 cols, const char* weights, char* x, f32* sums) {
  constexpr u32 kMany = ProcessorLoops::kMany;
  static_assert(kUnpackedBytes <= ProcessorLoops::kUnpackedBytes && kMany > kGroupTokens);
  const Rows<W> rows(x, cols);
  UnpackedStrip* const memory = (UnpackedStrip*)(x + (u64)kMany * (cols + 64) * sizeof(f32));
  const u64 strip_bytes = packed_shape(kStripRows, cols, W::type).strip_bytes;
  const UnpackedProduct<W> product{memory, rows, kMany, strip_bytes, 0, kKSlices};
  product(
      weights, 0, strips,
      [&](u32 strip, u32, u32, const f32x16* of) {
        for (u32 i = 0; i < kMany; ++i) store(sums + (strip * kMany + i) * kStripRows, of[i]);
      },
      [](u32, u32, u32, f32x16) {});
  return (u64)strips * kStripRows * cols * kMany;
}

template <class W>
u64 product_of(ProcessorLoops::Tokens tokens, u32 strips, u32 cols, const char* weights, char* x, f32* sums) {
#ifdef __AMX_BF16__
  if constexpr (Steps<W::type>::amx) {
    constexpr u32 kTokens[] = {1, kGroupTokens, ProcessorLoops::kMany};
    return multiply_by_amx<W>(kTokens[(u32)tokens], strips, cols, weights, x, sums);
  }
#endif
  switch (tokens) {
    case ProcessorLoops::Tokens::kOne:
      return multiply_strips<W, 1>(strips, cols, weights, x, sums);
    case ProcessorLoops::Tokens::kGroup:
      return multiply_strips<W, kGroupTokens>(strips, cols, weights, x, sums);
    case ProcessorLoops::Tokens::kMany:
      return multiply_many<W>(strips, cols, weights, x, sums);
  }
  return 0;
}

u64 product(WeightType type, ProcessorLoops::Tokens tokens, u32 strips, u32 cols, const char* weights,
            char* x, f32* sums) {
  static_assert(kGroupTokens <= ProcessorLoops::kGroup);
  switch (type) {
#define MK_MULTIPLY(name, type) \
  case WeightType::type:        \
    return product_of<WeightsOf<WeightType::type>>(tokens, strips, cols, weights, x, sums);
    MKRT_EACH_WEIGHT_TYPE(MK_MULTIPLY)
  }
  return 0;
}

}  // namespace

}  // namespace mk

extern "C" {
uint64_t MK_ATTEND_LOOP(mkrt::WeightType type, bool group, const char* keys, const char* values,
                        uint64_t stride, const uint32_t* pages, char* memory);
extern const ProcessorLoops MK_LOOPS;
}
const ProcessorLoops MK_LOOPS = {mk::read, mk::multiply_add, mk::product, MK_ATTEND_LOOP};
