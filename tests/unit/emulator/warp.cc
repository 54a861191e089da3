#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/unit/emulator/fixtures.h"

using namespace emulator_tests;

namespace {

struct Values {
  float in[32];
  float sum[32], max[32], quad[32], shuffled[32];
  bool any[3];  // votes of no lane, of the last lane, of all lanes
};

void reductions(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& values = arguments_of<Values>(session);
  const uint32_t lane = mk_thread();
  const float v = values.in[lane];
  values.sum[lane] = mk_warp_sum(v);
  values.max[lane] = mk_warp_max(v);
  const bool any[] = {mk_warp_any(false), mk_warp_any(lane == 31), mk_warp_any(true)};
  if (lane == 7) std::copy(std::begin(any), std::end(any), values.any);
  values.quad[lane] = mk_quad_sum(v);
  values.shuffled[lane] = mk_shuffle_xor(v, 5);
}

struct Product {
  float a[16][16], b[16][8], d[16][8];
  bool f16;
};

// Multiplies by mma.m16n8k16. The fragments follow the figures of the PTX ISA.
void product(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& p = arguments_of<Product>(session);
  const uint32_t group = mk_thread() / 4, t = mk_thread() % 4;
  const auto pack = [&](float lo, float hi) { return p.f16 ? mk_pack_f16(lo, hi) : mk_pack_bf16(lo, hi); };
  const uint32_t a0 = pack(p.a[group][2 * t], p.a[group][2 * t + 1]);
  const uint32_t a1 = pack(p.a[group + 8][2 * t], p.a[group + 8][2 * t + 1]);
  const uint32_t a2 = pack(p.a[group][2 * t + 8], p.a[group][2 * t + 9]);
  const uint32_t a3 = pack(p.a[group + 8][2 * t + 8], p.a[group + 8][2 * t + 9]);
  const uint32_t b0 = pack(p.b[2 * t][group], p.b[2 * t + 1][group]);
  const uint32_t b1 = pack(p.b[2 * t + 8][group], p.b[2 * t + 9][group]);
  float d[4] = {p.d[group][2 * t], p.d[group][2 * t + 1], p.d[group + 8][2 * t], p.d[group + 8][2 * t + 1]};
  (p.f16 ? mk_mma_f16 : mk_mma_bf16)(d, a0, a1, a2, a3, b0, b1);
  p.d[group][2 * t] = d[0];
  p.d[group][2 * t + 1] = d[1];
  p.d[group + 8][2 * t] = d[2];
  p.d[group + 8][2 * t + 1] = d[3];
}

struct Fp8Product {
  float a[16][32], b[32][8], d[16][8];
};

// Multiplies by mma.m16n8k32 of E4M3. The fragments follow the figures of the PTX ISA.
void fp8_product(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& p = arguments_of<Fp8Product>(session);
  const uint32_t group = mk_thread() / 4, t = mk_thread() % 4;
  const auto row = [&](uint32_t m, uint32_t k) {
    return mk_codes_e4m3(p.a[m][k], p.a[m][k + 1], p.a[m][k + 2], p.a[m][k + 3]);
  };
  const auto column = [&](uint32_t k) {
    return mk_codes_e4m3(p.b[k][group], p.b[k + 1][group], p.b[k + 2][group], p.b[k + 3][group]);
  };
  float d[4] = {p.d[group][2 * t], p.d[group][2 * t + 1], p.d[group + 8][2 * t], p.d[group + 8][2 * t + 1]};
  mk_mma_e4m3(d, row(group, 4 * t), row(group + 8, 4 * t), row(group, 4 * t + 16), row(group + 8, 4 * t + 16),
              column(4 * t), column(4 * t + 16));
  p.d[group][2 * t] = d[0];
  p.d[group][2 * t + 1] = d[1];
  p.d[group + 8][2 * t] = d[2];
  p.d[group + 8][2 * t + 1] = d[3];
}

void diverge(const mkrt::MkSession*, const mkrt::MkStep*) {
  mk_task_begin(2, 9);
  if (mk_thread() == 7)
    mk_warp_sync();
  else
    mk_warp_sum(1.0f);
}

void lane_missing(const mkrt::MkSession*, const mkrt::MkStep*) {
  if (mk_thread() != 31) mk_warp_max(0.0f);
}

struct Packs {
  float in[6];
  uint32_t f16[6], bf16[6];
  float back[6];
};

void packs(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& p = arguments_of<Packs>(session);
  for (int i = 0; i < 6; ++i) {
    p.f16[i] = mk_pack_f16(p.in[i], 1.0f);
    p.bf16[i] = mk_pack_bf16(1.0f, p.in[i]);
    p.back[i] = mk_f16_to_f32(p.f16[i]);
  }
}

float random_value(std::mt19937& engine) {
  return static_cast<float>(static_cast<int>(engine() % 65) - 32) / 16.0f;  // exact in bf16 and f16
}

}  // namespace

TEST_CASE("warp reductions follow the butterfly, and every lane gets them") {
  Values values{};
  std::mt19937 engine(1);
  for (float& v : values.in) v = std::uniform_real_distribution<float>(-1, 1)(engine);
  const Run run = launch(reductions, values, options_for(1, 32));
  REQUIRE(run.error() == "");
  CHECK(run.stats.value().collectives == 7);
  CHECK_FALSE(values.any[0]);
  CHECK(values.any[1]);
  CHECK(values.any[2]);
  float sum[32], quad[32];
  std::copy_n(values.in, 32, sum);
  std::copy_n(values.in, 32, quad);
  const auto butterfly = [](float* v, int mask) {
    float next[32];
    for (int i = 0; i < 32; ++i) next[i] = v[i] + v[i ^ mask];
    std::copy_n(next, 32, v);
  };
  for (int mask : {16, 8, 4, 2, 1}) butterfly(sum, mask);
  for (int mask : {2, 1}) butterfly(quad, mask);
  for (int i = 0; i < 32; ++i) {
    CHECK(values.sum[i] == sum[i]);
    CHECK(values.quad[i] == quad[i]);
    CHECK(values.max[i] == *std::max_element(values.in, values.in + 32));
    CHECK(values.shuffled[i] == values.in[i ^ 5]);
  }
}

TEST_CASE("mma adds the product of bf16 and f16 matrices to its accumulators") {
  for (bool f16 : {false, true}) {
    Product p{};
    std::mt19937 engine(2);
    for (auto& row : p.a)
      for (float& v : row) v = random_value(engine);
    for (auto& row : p.b)
      for (float& v : row) v = random_value(engine);
    for (auto& row : p.d)
      for (float& v : row) v = random_value(engine);
    p.f16 = f16;
    double want[16][8];
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 8; ++n) {
        want[m][n] = p.d[m][n];
        for (int k = 0; k < 16; ++k) want[m][n] += double(p.a[m][k]) * p.b[k][n];
      }
    const Run run = launch(product, p, options_for(1, 32));
    REQUIRE(run.error() == "");
    CHECK(run.stats.value().products == 1);
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 8; ++n) CHECK(p.d[m][n] == want[m][n]);
  }
}

TEST_CASE("mma adds the product of E4M3 matrices to its accumulators") {
  Fp8Product p{};
  std::mt19937 engine(3);
  // Multiples of 1/8 below 2 are numbers of E4M3, and their sums are exact.
  const auto random = [&] { return static_cast<float>(static_cast<int>(engine() % 31) - 15) / 8.0f; };
  for (auto& row : p.a)
    for (float& v : row) v = random();
  for (auto& row : p.b)
    for (float& v : row) v = random();
  for (auto& row : p.d)
    for (float& v : row) v = random();
  double want[16][8];
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n) {
      want[m][n] = p.d[m][n];
      for (int k = 0; k < 32; ++k) want[m][n] += double(p.a[m][k]) * p.b[k][n];
    }
  const Run run = launch(fp8_product, p, options_for(1, 32));
  REQUIRE(run.error() == "");
  CHECK(run.stats.value().products == 1);
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n) CHECK(p.d[m][n] == want[m][n]);
}

TEST_CASE("lanes at different collectives are an error that names the task") {
  Values values{};
  CHECK(launch(diverge, values, options_for(1, 32)).error() ==
        "worker 0 thread 7, task grid 2[9]: diverged: lane 7 is at mk_warp_sync(0) and lane 0 at "
        "mk_warp_sum(0)");
}

TEST_CASE("a lane that stays away from a collective is a deadlock") {
  Values values{};
  CHECK(launch(lane_missing, values, options_for(1, 32)).error() ==
        "deadlock:\n  worker 0 threads 0-30: wait in mk_warp_max for the rest of the warp");
}

TEST_CASE("conversions round to nearest even, keep subnormals, and make one NaN") {
  Packs p{};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float in[6] = {1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 0x1.8p-24f, 65520.0f, -0x1p-14f, nan};
  std::copy_n(in, 6, p.in);
  REQUIRE(launch(packs, p, options_for(1, 32)).ok());
  const uint32_t f16[6] = {0x3c00, 0x3c02, 0x0002, 0x7c00, 0x8400, 0x7fff};
  for (int i = 0; i < 6; ++i) CHECK(p.f16[i] == (0x3c000000u | f16[i]));
  CHECK(p.bf16[0] == 0x3f803f80);
  CHECK(p.bf16[4] == 0xb8803f80);
  CHECK(p.bf16[5] == 0x7fff3f80);
  CHECK(p.back[2] == 0x1p-23f);
  CHECK(p.back[3] == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(p.back[5]));
}
