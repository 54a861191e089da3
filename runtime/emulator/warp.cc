#include "runtime/emulator/warp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/half.h"
#include "runtime/emulator/launch.h"
#include "runtime/emulator/primitives.h"

namespace mkrt::emulator {

const char* collective_name(Collective collective) {
  switch (collective) {
    case Collective::kNone:
      return "nothing";
    case Collective::kSync:
      return "mk_warp_sync";
    case Collective::kShuffleXor:
      return "mk_shuffle_xor";
    case Collective::kSum:
      return "mk_warp_sum";
    case Collective::kMax:
      return "mk_warp_max";
    case Collective::kAny:
      return "mk_warp_any";
    case Collective::kQuadSum:
      return "mk_quad_sum";
    case Collective::kMmaBf16:
      return "mk_mma_bf16";
    case Collective::kMmaF16:
      return "mk_mma_f16";
    case Collective::kMmaE4m3:
      return "mk_mma_e4m3";
    case Collective::kWgmmaBf16:
      return "mk_wgmma_bf16";
    case Collective::kWgmmaF16:
      return "mk_wgmma_f16";
    case Collective::kWgmmaE4m3:
      return "mk_wgmma_e4m3";
    case Collective::kWgmmaWait:
      return "mk_wgmma_wait";
  }
  return "";
}

namespace {

struct Lane {
  Fiber& fiber;
  Warp& warp;
  uint32_t index;
};

Lane this_lane() {
  Fiber& fiber = self();
  return {fiber, fiber.worker->warps[fiber.thread / kLanes], fiber.thread % kLanes};
}

// Arrives at a collective and returns when all lanes have arrived. The last lane calls complete(warp) first.
template <class Complete>
void join(const Lane& lane, Collective collective, uint32_t parameter, Complete complete) {
  Warp& warp = lane.warp;
  if (warp.arrived == 0) {
    warp.collective = collective;
    warp.parameter = parameter;
    warp.first_lane = lane.index;
  } else if (warp.collective != collective || warp.parameter != parameter) {
    fail([&] {
      return fmt::format("diverged: lane {} is at {}({}) and lane {} at {}({})", lane.index,
                         collective_name(collective), parameter, warp.first_lane,
                         collective_name(warp.collective), warp.parameter);
    });
  }
  if (++warp.arrived < kLanes)
    return suspend({Wait::Kind::kCollective, nullptr, static_cast<uint32_t>(collective)});
  complete(warp);
  warp.arrived = 0;
  Worker& worker = *lane.fiber.worker;
  ++worker.stats.collectives;
  Fiber* first = &lane.fiber - lane.index;
  for (uint32_t i = 0; i < kLanes; ++i)
    if (i != lane.index) worker.ready.push(first + i);
}

template <class Complete>
float exchange(float v, Collective collective, uint32_t parameter, Complete complete) {
  const Lane lane = this_lane();
  lane.warp.in[lane.index] = v;
  join(lane, collective, parameter, complete);
  return lane.warp.out[lane.index];
}

// A butterfly over a commutative operation gives all lanes equal bits, so lane 0's result serves all.
template <class Combine>
void reduce_warp(Warp& warp, Combine combine) {
  float v[kLanes];
  std::copy_n(warp.in, kLanes, v);
  for (uint32_t half = kLanes / 2; half != 0; half /= 2)
    for (uint32_t i = 0; i < half; ++i) v[i] = combine(v[i], v[i + half]);
  std::fill_n(warp.out, kLanes, v[0]);
}

constexpr int kRows = 16, kColumns = 8;

// Computes d += a * b from the fragments of all lanes (PTX ISA, matrix fragments for mma.m16n8k16 and
// mma.m16n8k32). A register holds `PerWord` elements. Products are exact in f32. The accumulator adds the
// products in the order of the inner index.
template <uint32_t PerWord, class ToFloat>
void multiply(Warp& warp, ToFloat to_float) {
  constexpr int kInner = PerWord * 8;
  constexpr uint32_t kBits = 32 / PerWord, kMask = (1u << kBits) - 1;
  float a[kRows][kInner], b[kInner][kColumns], d[kRows][kColumns];
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const MmaFragment& f = warp.fragment[lane];
    const uint32_t row = lane / 4, first = lane % 4 * PerWord;
    for (uint32_t i = 0; i < 4; ++i) {
      float* to = &a[row + i % 2 * 8][first + i / 2 * 4 * PerWord];
      for (uint32_t e = 0; e < PerWord; ++e) to[e] = to_float(f.a[i] >> e * kBits & kMask);
      d[row + i / 2 * 8][lane % 4 * 2 + i % 2] = f.d[i];
    }
    for (uint32_t i = 0; i < 2; ++i)
      for (uint32_t e = 0; e < PerWord; ++e)
        b[first + i * 4 * PerWord + e][row] = to_float(f.b[i] >> e * kBits & kMask);
  }
  for (int m = 0; m < kRows; ++m)
    for (int k = 0; k < kInner; ++k)
      for (int n = 0; n < kColumns; ++n) d[m][n] += a[m][k] * b[k][n];
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    for (uint32_t i = 0; i < 4; ++i) warp.fragment[lane].d[i] = d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

template <uint32_t PerWord, class ToFloat>
void mma(Collective collective, float* d, const MmaFragment& operands, ToFloat to_float) {
  const Lane lane = this_lane();
  MmaFragment& fragment = lane.warp.fragment[lane.index];
  fragment = operands;
  std::copy_n(d, 4, fragment.d);
  join(lane, collective, 0, [&](Warp& warp) {
    multiply<PerWord>(warp, to_float);
    ++lane.fiber.worker->stats.products;
  });
  std::copy_n(fragment.d, 4, d);
}

}  // namespace
}  // namespace mkrt::emulator

using namespace mkrt;
using namespace mkrt::emulator;

extern "C" {

void mk_warp_sync() noexcept {
  const Lane lane = this_lane();
  join(lane, Collective::kSync, 0, [&](Warp&) {
    if (Race* race = lane.fiber.worker->launch.race.get()) race->synchronise_warp(lane.fiber.agent);
  });
}

float mk_shuffle_xor(float v, uint32_t mask) noexcept {
  if (mask >= kLanes)
    fail([&] { return fmt::format("mk_shuffle_xor with mask {} above {}", mask, kLanes - 1); });
  return exchange(v, Collective::kShuffleXor, mask, [mask](Warp& warp) {
    for (uint32_t i = 0; i < kLanes; ++i) warp.out[i] = warp.in[i ^ mask];
  });
}

float mk_warp_sum(float v) noexcept {
  return exchange(v, Collective::kSum, 0,
                  [](Warp& warp) { reduce_warp(warp, [](float a, float b) { return a + b; }); });
}

float mk_warp_max(float v) noexcept {
  return exchange(v, Collective::kMax, 0,
                  [](Warp& warp) { reduce_warp(warp, [](float a, float b) { return std::fmax(a, b); }); });
}

bool mk_warp_any(bool v) noexcept {
  return exchange(v ? 1.0f : 0.0f, Collective::kAny, 0, [](Warp& warp) {
           std::fill_n(warp.out, kLanes, *std::max_element(warp.in, warp.in + kLanes));
         }) != 0;
}

float mk_quad_sum(float v) noexcept {
  return exchange(v, Collective::kQuadSum, 0, [](Warp& warp) {
    for (uint32_t i = 0; i < kLanes; i += 4)
      std::fill_n(warp.out + i, 4, (warp.in[i] + warp.in[i + 2]) + (warp.in[i + 1] + warp.in[i + 3]));
  });
}

void mk_mma_bf16(float* d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                 uint32_t b1) noexcept {
  mma<2>(Collective::kMmaBf16, d, {{a0, a1, a2, a3}, {b0, b1}, {}}, bf16_to_f32);
}

void mk_mma_f16(float* d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                uint32_t b1) noexcept {
  mma<2>(Collective::kMmaF16, d, {{a0, a1, a2, a3}, {b0, b1}, {}}, f16_to_f32);
}

void mk_mma_e4m3(float* d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                 uint32_t b1) noexcept {
  mma<4>(Collective::kMmaE4m3, d, {{a0, a1, a2, a3}, {b0, b1}, {}}, e4m3_to_f32);
}
}
