#include "tools/doctor/probes.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

#include "runtime/base/half.h"

namespace mkc {
namespace {

namespace half = mkrt;

uint32_t mixed(uint32_t sum, uint32_t word) {
  return (sum ^ word) * 0x9e3779b1u;
}
uint32_t bits(float v) {
  return std::bit_cast<uint32_t>(v);
}
float number(uint32_t word) {
  return std::bit_cast<float>(word);
}

// Returns pseudo-random words.
Words some_words(size_t count, uint32_t seed) {
  Words words(count);
  for (size_t i = 0; i < count; ++i) words[i] = mixed(mixed(seed, static_cast<uint32_t>(i)), 0x85ebca6b) >> 1;
  return words;
}
// Returns a number from -4 to 4. Products and sums of such numbers are exact in every type.
int small(uint32_t i) {
  return static_cast<int>(mixed(17, i) >> 16) % 9 - 4;
}

// Compares the first words of `out` with the expected ones. Returns the fault, or "".
std::string compare_words(const Words& out, const Words& expected) {
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    if (out[i] != expected[i] && wrong++ == 0) first = i;
  if (wrong == 0) return "";
  return fmt::format("{} of {} words are wrong; word {} is {:#010x}, expected {:#010x}", wrong,
                     expected.size(), first, out[first], expected[first]);
}

std::function<std::string(const Words&)> equals(Words expected) {
  return [expected = std::move(expected)](const Words& out) { return compare_words(out, expected); };
}

Probe lanes() {
  Probe p{.name = "shfl.sync, vote.sync", .kernel = "probe_lanes"};
  std::array<float, 32> v;
  for (uint32_t t = 0; t < 32; ++t) p.in.push_back(bits(v[t] = static_cast<float>(t * 37 % 64) - 20));
  float sum = 0, max = v[0];
  for (const float x : v) sum += x, max = std::max(max, x);
  Words expected;
  for (uint32_t t = 0; t < 32; ++t) {
    const uint32_t q = t / 4 * 4;
    for (const float x : {v[t ^ 5], sum, max, v[q] + v[q + 1] + v[q + 2] + v[q + 3]})
      expected.push_back(bits(x));
    expected.push_back(1);
  }
  p.out_words = expected.size();
  p.check = equals(std::move(expected));
  return p;
}

Probe numbers() {
  constexpr uint32_t kThreads = 256;
  constexpr double kWorstOfMma = 0x1p-21;  // relative error, twice the one that mk.h allows
  Probe p{.name = "rsqrt, rcp, ex2, cvt, prmt", .kernel = "probe_numbers", .threads = kThreads};
  for (uint32_t t = 0; t < kThreads; ++t)
    for (const float x :
         {0.01f * std::exp(0.045f * static_cast<float>(t)), 0.15f * static_cast<float>(t) - 20})
      p.in.push_back(bits(x));
  p.out_words = 8 * kThreads;
  p.check = [in = p.in](const Words& out) -> std::string {
    for (uint32_t t = 0; t < kThreads; ++t) {
      const uint32_t* got = out.data() + 8 * t;
      const uint32_t x = in[2 * t], y = in[2 * t + 1];
      const float a = number(x), b = number(y);
      const double near[] = {1 / std::sqrt(double{a}), 1 / double{a}, std::exp2(double{b})};
      const char* names[] = {"rsqrt", "rcp", "ex2"};
      for (uint32_t i = 0; i < 3; ++i)
        if (const double found = number(got[i]); !(std::abs(found - near[i]) <= kWorstOfMma * near[i]))
          return fmt::format("{} of {} is {}, expected {}", names[i], i < 2 ? a : b, found, near[i]);
      const uint32_t exact[] = {
          half::f32_to_bf16(a) | half::f32_to_bf16(b) << 16, half::f32_to_f16(a) | half::f32_to_f16(b) << 16,
          bits(half::f16_to_f32(half::f32_to_f16(a))), (x & 0xffff) | y << 16, x >> 16 | (y & 0xffff0000)};
      const char* of[] = {"cvt.rn.bf16x2", "cvt.rn.f16x2", "cvt.f32.f16", "prmt of low halves",
                          "prmt of high halves"};
      for (uint32_t i = 0; i < 5; ++i)
        if (got[3 + i] != exact[i])
          return fmt::format("{} of {} and {} is {:#010x}, expected {:#010x}", of[i], a, b, got[3 + i],
                             exact[i]);
    }
    return "";
  };
  return p;
}

Probe e4m3() {
  constexpr uint32_t kThreads = 256;
  Probe p{.name = "cvt to and from e4m3", .kernel = "probe_e4m3", .threads = kThreads};
  for (uint32_t t = 0; t < kThreads; ++t)
    for (const float x : {std::ldexp(1 + static_cast<float>(t % 32) / 32, static_cast<int>(t / 13) - 11),
                          -std::ldexp(1 + static_cast<float>(t % 16) / 16, static_cast<int>(t / 16) - 8)})
      p.in.push_back(bits(x));
  p.out_words = 2 * kThreads;
  p.check = [in = p.in](const Words& out) -> std::string {
    for (uint32_t t = 0; t < kThreads; ++t) {
      const float a = number(in[2 * t]), b = number(in[2 * t + 1]);
      const uint32_t codes = half::f32_to_e4m3(a) | half::f32_to_e4m3(b) << 8;
      if (out[2 * t] != codes)
        return fmt::format("codes of {} and {} are {:#06x}, expected {:#06x}", a, b, out[2 * t], codes);
      for (const auto& [code, found] :
           {std::pair(t & 0xff, out[2 * t + 1] & 0xffff), std::pair(t & 0x7f, out[2 * t + 1] >> 16)}) {
        const float wanted = half::e4m3_to_f32(code), got = half::f16_to_f32(found);
        if (wanted != got && !(std::isnan(wanted) && std::isnan(got)))
          return fmt::format("code {:#04x} is {}, expected {}", code, got, wanted);
      }
    }
    return "";
  };
  return p;
}

Probe barriers() {
  constexpr uint32_t kThreads = 256;
  Probe p{.name = "barrier.cta.sync", .kernel = "probe_barriers", .threads = kThreads, .shared_bytes = 1024};
  p.argument = 50;
  p.in = some_words(kThreads, 1);
  Words sum = p.in, words(kThreads);
  for (uint32_t i = 0; i < p.argument; ++i) {
    for (uint32_t t = 0; t < kThreads; ++t) words[t] = sum[t] + i;
    for (uint32_t t = 0; t < kThreads; ++t) sum[t] = mixed(sum[t], words[t / 128 * 128 + (t + 33) % 128]);
  }
  p.out_words = kThreads;
  p.check = equals(std::move(sum));
  return p;
}

Probe mbarrier() {
  Probe p{.name = "mbarrier", .kernel = "probe_mbarrier", .threads = 64, .shared_bytes = 2048};
  p.argument = 64;
  p.in = some_words(32, 2);
  Words sum(32);
  for (uint32_t i = 0; i < p.argument; ++i)
    for (uint32_t t = 0; t < 32; ++t) sum[t] = mixed(sum[t], p.in[t ^ 9] * (i + 1));
  p.out_words = 32;
  p.check = equals(std::move(sum));
  return p;
}

// Completes a probe of copies in pieces of `words` words per lane. The expected sum does not depend on the
// kind of copy.
Probe copies(Probe p, uint32_t words) {
  p.argument = 40;
  p.shared_bytes = 1024 + 4 * 128 * words;
  p.in = some_words(size_t{p.argument} * 32 * words, 3);
  Words sum(32);
  for (size_t i = 0; i < p.in.size(); ++i) sum[i % 32] = mixed(sum[i % 32], p.in[i]);
  p.out_words = 32;
  p.check = equals(std::move(sum));
  return p;
}

// Returns elements (row, column) and (row, column + 1) of matrix `seed`, as the halves of a word.
uint32_t pair_of(uint32_t seed, uint32_t row, uint32_t column, uint32_t (*convert)(float)) {
  const auto at = [&](uint32_t c) { return convert(static_cast<float>(small(seed + row * 64 + c))); };
  return at(column) | at(column + 1) << 16;
}

constexpr uint32_t kA = 0, kB = 1u << 20;  // seeds of the matrices a and b

float product_at(uint32_t row, uint32_t column, uint32_t depth) {
  int sum = 0;
  for (uint32_t k = 0; k < depth; ++k) sum += small(kA + row * 64 + k) * small(kB + column * 64 + k);
  return static_cast<float>(sum);
}

// Appends a lane's four words of matrix a for rows [row, row + 16) and columns [k, k + 16).
void put_a(Words& in, uint32_t row, uint32_t k, uint32_t lane, uint32_t (*convert)(float)) {
  const uint32_t g = lane / 4, q = lane % 4 * 2;
  for (const uint32_t word : {0u, 1u, 2u, 3u})
    in.push_back(pair_of(kA, row + g + 8 * (word % 2), k + q + 8 * (word / 2), convert));
}

Probe mma() {
  Probe p{.name = "mma.sync", .kernel = "probe_mma"};
  Words expected;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t (*convert)(float) : {half::f32_to_bf16, half::f32_to_f16}) {
      put_a(p.in, 0, 0, lane, convert);
      for (const uint32_t k : {0u, 8u}) p.in.push_back(pair_of(kB, lane / 4, lane % 4 * 2 + k, convert));
    }
    for (uint32_t i = 0; i < 8; ++i)
      expected.push_back(
          bits(static_cast<float>(i + 1) + product_at(lane / 4 + i % 4 / 2 * 8, lane % 4 * 2 + i % 2, 16)));
  }
  p.out_words = expected.size();
  p.check = equals(std::move(expected));
  return p;
}

Probe wgmma(bool f16) {
  Probe p{.name = f16 ? "wgmma (f16)" : "wgmma (bf16)", .kernel = "probe_wgmma", .threads = 128};
  p.shared_bytes = 64 * 128 + 1024;  // reserve: a descriptor begins up to 96 bytes into the first column
  p.argument = f16 ? 1 : 0;
  p.without = "wgmma";
  uint32_t (*convert)(float) = f16 ? half::f32_to_f16 : half::f32_to_bf16;
  Words expected;
  for (uint32_t t = 0; t < p.threads; ++t) {
    const uint32_t lane = t % 32, row = t / 32 * 16;
    for (uint32_t k = 0; k < 64; k += 16) put_a(p.in, row, k, lane, convert);
    for (uint32_t i = 0; i < 32; ++i)
      expected.push_back(bits(static_cast<float>(i) + product_at(row + lane / 4 + i % 4 / 2 * 8,
                                                                 i / 4 * 8 + lane % 4 * 2 + i % 2, 64)));
  }
  for (uint32_t column = 0; column < 64; ++column)
    for (uint32_t k = 0; k < 64; k += 2) p.in.push_back(pair_of(kB, column, k, convert));
  p.out_words = expected.size();
  p.check = equals(std::move(expected));
  return p;
}

// Codes take half the words of bf16, so the words behind them are not used.
Probe wgmma_codes() {
  Probe p = wgmma(false);
  p.name = "wgmma (e4m3)";
  p.argument = 2;
  const auto four = [](uint32_t seed, uint32_t row, uint32_t column) {
    uint32_t word = 0;
    for (uint32_t i = 0; i < 4; ++i)
      word |= half::f32_to_e4m3(static_cast<float>(small(seed + row * 64 + column + i))) << 8 * i;
    return word;
  };
  for (uint32_t t = 0; t < p.threads; ++t)
    for (uint32_t i = 0; i < 8; ++i)
      p.in[16 * t + i] = four(kA, t / 32 * 16 + t % 32 / 4 + i % 2 * 8, i / 2 * 16 + t % 4 * 4);
  for (uint32_t column = 0; column < 64; ++column)
    for (uint32_t word = 0; word < 16; ++word)
      p.in[16 * p.threads + 32 * column + word] = four(kB, column, 4 * word);
  return p;
}

Probe setmaxnreg() {
  constexpr uint32_t kValues = 128, kThreads = 384;
  Probe p{.name = "setmaxnreg", .kernel = "probe_setmaxnreg", .threads = kThreads};
  p.argument = 3;
  p.without = "setmaxnreg";
  p.in = some_words(kThreads, 4);
  Words expected;
  for (uint32_t t = 0; t < kThreads; ++t) {
    if (t >= 256) {
      expected.push_back(p.in[t] + 1);
      continue;
    }
    std::array<uint32_t, kValues> kept;
    for (uint32_t i = 0; i < kValues; ++i) kept[i] = p.in[(t + i) % kThreads];
    for (uint32_t r = 0; r < p.argument; ++r)
      for (uint32_t i = 0; i < kValues; ++i) kept[i] = mixed(kept[i], kept[(i + 1) % kValues] + r);
    uint32_t sum = 0;
    for (const uint32_t value : kept) sum = mixed(sum, value);
    expected.push_back(sum);
  }
  p.out_words = expected.size();
  p.check = equals(std::move(expected));
  return p;
}

Probe messages() {
  Probe p{.name = "release and acquire between blocks", .kernel = "probe_messages", .blocks = 2};
  p.argument = 200;
  p.in = some_words(32, 5);
  Words sum(32);
  for (uint32_t i = 1; i <= p.argument; ++i)
    for (uint32_t t = 0; t < 32; ++t) sum[t] = mixed(sum[t], p.in[t ^ 7] * i);
  p.out_words = 128;
  p.check = equals(std::move(sum));
  return p;
}

Probe atomics() {
  static constexpr uint32_t kBlocks = 8, kThreads = 64, kRounds = 4, kAll = kBlocks * kThreads * kRounds;
  Probe p{
      .name = "atom.add, atom.cas, red", .kernel = "probe_atomics", .blocks = kBlocks, .threads = kThreads};
  p.argument = kRounds;
  p.in = {kBlocks, kThreads};
  p.out_words = 512 + kAll;
  p.check = [](const Words& out) -> std::string {
    for (const auto& [at, what, wanted] :
         {std::tuple(0u, "atom.relaxed.add", kAll), std::tuple(32u, "atom.acq_rel.add", kAll),
          std::tuple(64u, "atom.cas", 3 * kAll), std::tuple(96u, "arrivals", kBlocks),
          std::tuple(128u, "what the last block read", 1000 * kBlocks * (kBlocks + 1) / 2)})
      if (out[at] != wanted) return fmt::format("{} came to {}, expected {}", what, out[at], wanted);
    return compare_words({out.begin() + 512, out.end()}, Words(kAll, 0x10001));
  };
  return p;
}

Probe clock() {
  Probe p{.name = "globaltimer", .kernel = "probe_clock", .threads = 1};
  p.argument = 20000;
  p.in = {0};
  p.out_words = 3;
  p.check = [](const Words& out) -> std::string {
    if (out[2] != 0) return fmt::format("went back {} times", out[2]);
    return out[1] == 0 ? "stood still" : "";
  };
  return p;
}

}  // namespace

std::vector<Probe> probes_of(const Engines& engines) {
  std::vector<Probe> probes{lanes(), numbers(), e4m3(), barriers(), mbarrier()};
  probes.push_back(copies({.name = "cp.async", .kernel = "probe_async"}, 8));
  if (engines.bulk_copy) {
    Probe bulk{.name = "cp.async.bulk", .kernel = "probe_bulk", .threads = 64};
    bulk.without = "bulk";
    probes.push_back(copies(std::move(bulk), 32));
  }
  probes.push_back(mma());
  if (engines.warpgroups) {
    probes.push_back(wgmma(false));
    probes.push_back(wgmma(true));
    probes.push_back(wgmma_codes());
    if (engines.setmaxnreg) probes.push_back(setmaxnreg());
  }
  for (Probe (*probe)() : {messages, atomics, clock}) probes.push_back(probe());
  return probes;
}

std::string run_probe(Gpu& gpu, const Probe& p) {
  const Result<uint64_t> in = gpu.allocate(4 * p.in.size()), out = gpu.allocate(4 * p.out_words);
  if (!in.ok() || !out.ok()) return (in.ok() ? out : in).error().message;
  if (Status s = gpu.write(in.value(), p.in); !s.ok()) return s.error().message;
  if (Status s =
          gpu.run({p.kernel, p.blocks, p.threads, p.shared_bytes, {in.value(), out.value(), p.argument}});
      !s.ok())
    return s.error().message;
  Words found(p.out_words);
  if (Status s = gpu.read(std::as_writable_bytes(std::span(found)), out.value()); !s.ok())
    return s.error().message;
  return p.check(found);
}

}  // namespace mkc
