#include <random>

#include "tests/unit/emulator/fixtures.h"

using namespace emulator_tests;

namespace {

constexpr uint32_t kThreads = 128;

// Type is that of a product's elements.
enum class Type { kBf16, kF16, kE4m3 };

// Slip is the mistake that a kernel makes.
enum class Slip { kNone, kNoFence, kNoBarrier, kEarlyOverwrite, kNoWait, kMisaligned, kFewThreads };

struct Product {
  float a[64][64], b[64][64];  // b is stored as [n][k]
  float d[64][64];
  Type type;
  Slip slip;
};

// Multiplies by wgmma, with operands as the PTX ISA's figures lay them out. Matrices a and d lie in
// registers. Matrix b lies K-major in shared memory, under the 128-byte swizzle.
void product(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& p = arguments_of<Product>(session);
  const uint32_t thread = mk_thread(), row = thread / 32 * 16 + thread % 32 / 4, pair = thread % 4 * 2;
  const bool codes = p.type == Type::kE4m3;
  const auto pack = [&](const float* v) {
    if (codes) return mk_pack_e4m3(v[0], v[1]) | mk_pack_e4m3(v[2], v[3]) << 16;
    return p.type == Type::kF16 ? mk_pack_f16(v[0], v[1]) : mk_pack_bf16(v[0], v[1]);
  };
  const uint32_t in_word = codes ? 4 : 2, words = 64 / in_word, step = 8 * in_word;
  auto* b = reinterpret_cast<uint32_t*>(mk_shared());
  for (uint32_t i = thread; i < 64 * words; i += kThreads) {
    const uint32_t n = i / words, word = i % words;
    write(&b[n * 32 + (word / 4 ^ n % 8) * 4 + word % 4], pack(&p.b[n][word * in_word]), 1);
  }
  if (p.slip != Slip::kNoFence) mk_fence_proxy_async();
  if (p.slip != Slip::kNoBarrier) mk_barrier(0, kThreads);
  uint32_t a[16];
  for (uint32_t i = 0; i < 64 / step * 4; ++i)
    a[i] = pack(&p.a[row + i % 2 * 8][i / 4 * step + i % 4 / 2 * step / 2 + thread % 4 * in_word]);
  float d[32];
  const auto place = [&](uint32_t i) -> float& { return p.d[row + i % 4 / 2 * 8][i / 4 * 8 + pair + i % 2]; };
  for (uint32_t i = 0; i < 32; ++i) d[i] = place(i);
  if (p.slip == Slip::kFewThreads && thread == 5) return;
  (codes                  ? mk_wgmma_e4m3
   : p.type == Type::kF16 ? mk_wgmma_f16
                          : mk_wgmma_bf16)(d, a, p.slip == Slip::kMisaligned ? b + 64 : b);
  if (p.slip == Slip::kEarlyOverwrite && thread == 0) write(&b[0], 0u, 2);
  if (p.slip != Slip::kNoWait) mk_wgmma_wait(d);
  for (uint32_t i = 0; i < 32; ++i) place(i) = d[i];
}

float random_value(std::mt19937& engine) {
  return static_cast<float>(static_cast<int>(engine() % 31) - 15) / 8.0f;  // exact in bf16, f16 and E4M3
}

Product random_product(Type type, Slip slip) {
  Product p{};
  std::mt19937 engine(4);
  for (auto* matrix : {&p.a, &p.b, &p.d})
    for (auto& row : *matrix)
      for (float& v : row) v = random_value(engine);
  p.type = type;
  p.slip = slip;
  return p;
}

Run run(Product& p) {
  mkrt::EmulatorOptions options = options_for(1, kThreads);
  options.race = true;
  return launch(product, p, options);
}

bool is_product(const Product& p, const Product& before) {
  for (int m = 0; m < 64; ++m)
    for (int n = 0; n < 64; ++n) {
      double want = before.d[m][n];
      for (int k = 0; k < 64; ++k) want += double(p.a[m][k]) * p.b[n][k];
      if (p.d[m][n] != want) return false;
    }
  return true;
}

}  // namespace

TEST_CASE("a warpgroup adds the product of bf16, f16 and E4M3 matrices to its accumulators") {
  for (const Type type : {Type::kBf16, Type::kF16, Type::kE4m3}) {
    const Product before = random_product(type, Slip::kNone);
    Product p = before;
    const Run done = run(p);
    REQUIRE(done.error() == "");
    CHECK(done.races.empty());
    CHECK(is_product(p, before));
  }
}

TEST_CASE("what a warpgroup reads has to be written, fenced and left alone until the wait") {
  for (const Type type : {Type::kBf16, Type::kE4m3})
    for (const auto& [slip, kind] : {std::pair(Slip::kNoFence, mkrt::RaceKind::kProxy),
                                     {Slip::kNoBarrier, mkrt::RaceKind::kReadAfterWrite},
                                     {Slip::kEarlyOverwrite, mkrt::RaceKind::kWriteAfterRead}}) {
      Product p = random_product(type, slip);
      const Run done = run(p);
      REQUIRE(done.error() == "");
      bool found = false;
      for (const mkrt::RaceReport& race : done.races)
        found |= race.kind == kind && race.message.find("warpgroup product") != std::string::npos;
      CHECK(found);
    }
}

TEST_CASE("sums that nobody waited for are not there") {
  const Product before = random_product(Type::kBf16, Slip::kNoWait);
  Product p = before;
  REQUIRE(run(p).error() == "");
  CHECK(!is_product(p, before));
}

TEST_CASE("a warpgroup's product from a place that is not aligned, or without all its threads, is an error") {
  Product p = random_product(Type::kBf16, Slip::kMisaligned);
  CHECK(run(p).error_has("mk_wgmma_bf16 with b at shared+0x100: must be a multiple of 1024"));
  p = random_product(Type::kBf16, Slip::kFewThreads);
  CHECK(run(p).error_has("mk_wgmma_bf16"));
  p = random_product(Type::kBf16, Slip::kNoBarrier);
  CHECK(launch(product, p, options_for(1, 32)).error_has("by a warp that is of no whole warpgroup"));
}
