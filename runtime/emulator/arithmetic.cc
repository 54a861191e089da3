// Primitives that are single instructions on a GPU are computed here to f32 accuracy.
#include <cmath>

#include "runtime/base/half.h"
#include "runtime/emulator/primitives.h"

using namespace mkrt;

namespace {

// Returns a * b + c of bf16 numbers, rounded once. The f32 in between is rounded to odd, so that its own
// rounding does not show. The source is Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded
// sums".
uint32_t fma_bf16(uint32_t a, uint32_t b, uint32_t c) {
  const double exact = std::fma(double{bf16_to_f32(a)}, double{bf16_to_f32(b)}, double{bf16_to_f32(c)});
  auto between = static_cast<float>(exact);
  if (std::isfinite(between) && between != exact) {
    if (std::fabs(between) > std::fabs(exact)) between = std::nextafter(between, 0.0f);
    between = std::bit_cast<float>(std::bit_cast<uint32_t>(between) | 1);
  }
  return f32_to_bf16(between);
}

}  // namespace

extern "C" {

uint32_t mk_low_halves(uint32_t a, uint32_t b) noexcept {
  return (a & 0xffffu) | b << 16;
}

uint32_t mk_high_halves(uint32_t a, uint32_t b) noexcept {
  return a >> 16 | (b & 0xffff0000u);
}

float mk_rsqrt(float x) noexcept {
  return 1.0f / std::sqrt(x);
}

float mk_rcp(float x) noexcept {
  return 1.0f / x;
}

float mk_exp2(float x) noexcept {
  return std::exp2(x);
}

uint32_t mk_pack_bf16(float lo, float hi) noexcept {
  return f32_to_bf16(hi) << 16 | f32_to_bf16(lo);
}

uint32_t mk_fma_bf16x2(uint32_t a, uint32_t b, uint32_t c) noexcept {
  return fma_bf16(a >> 16, b >> 16, c >> 16) << 16 | fma_bf16(a & 0xffff, b & 0xffff, c & 0xffff);
}

uint32_t mk_pack_f16(float lo, float hi) noexcept {
  return f32_to_f16(hi) << 16 | f32_to_f16(lo);
}

float mk_f16_to_f32(uint32_t half_bits) noexcept {
  return f16_to_f32(half_bits);
}

uint32_t mk_pack_e4m3(float lo, float hi) noexcept {
  return f32_to_e4m3(hi) << 8 | f32_to_e4m3(lo);
}

uint32_t mk_max_abs_bf16x2(uint32_t a, uint32_t b) noexcept {
  const auto half = [&](uint32_t shift) {
    const float x = bf16_to_f32(a >> shift & 0x7fff), y = bf16_to_f32(b >> shift & 0x7fff);
    return (f32_to_bf16(std::fmax(x, y)) | ((a ^ b) >> shift & 0x8000)) << shift;
  };
  return half(16) | half(0);
}

uint32_t mk_codes_e4m3(float a, float b, float c, float d) noexcept {
  return mk_pack_e4m3(c, d) << 16 | mk_pack_e4m3(a, b);
}

uint32_t mk_unpack_e4m3(uint32_t codes) noexcept {
  return f32_to_f16(e4m3_to_f32(codes >> 8)) << 16 | f32_to_f16(e4m3_to_f32(codes));
}
}
