#include "runtime/emulator/warpgroup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/base/half.h"
#include "runtime/emulator/launch.h"
#include "runtime/emulator/primitives.h"

namespace mkrt::emulator {
namespace {

constexpr uint32_t kSize = 64;         // of m, n and k
constexpr uint32_t kRowBytes = 128;    // from one column of b to the next; elements run along k
constexpr uint32_t kAtomBytes = 1024;  // 8 rows, after which the swizzle repeats
constexpr uint32_t kChunkBytes = 16;   // the swizzle keeps them together
using Matrix = std::array<std::array<float, kSize>, kSize>;

constexpr GroupType kBf16{Collective::kWgmmaBf16, bf16_to_f32, 2}, kF16{Collective::kWgmmaF16, f16_to_f32, 2},
    kE4m3{Collective::kWgmmaE4m3, e4m3_to_f32, 1};

struct Place {
  Fiber& fiber;
  WarpGroup& group;
  uint32_t thread;  // in the group
};

Place this_place(const char* name) {
  Fiber& fiber = self();
  const uint32_t group = fiber.thread / kGroupThreads;
  if (group >= fiber.worker->warpgroups.size())
    fail([&] { return fmt::format("{} by a warp that is of no whole warpgroup", name); });
  return {fiber, fiber.worker->warpgroups[group], fiber.thread % kGroupThreads};
}

// Arrives at a collective of the warpgroup and returns when all threads have. The last thread calls
// complete() first.
template <class Complete>
void join_group(const Place& place, Collective collective, Complete complete) {
  WarpGroup& group = place.group;
  if (group.arrived == 0) group.collective = collective;
  if (group.collective != collective)
    fail([&] {
      return fmt::format("diverged: thread {} of a warpgroup is at {} and others at {}", place.thread,
                         collective_name(collective), collective_name(group.collective));
    });
  if (++group.arrived < kGroupThreads)
    return suspend({Wait::Kind::kCollective, nullptr, static_cast<uint32_t>(collective)});
  complete();
  group.arrived = 0;
  ++place.fiber.worker->stats.collectives;
  Fiber* first = &place.fiber - place.thread;
  for (uint32_t i = 0; i < kGroupThreads; ++i)
    if (i != place.thread) wake(first[i]);
}

// Returns where byte `at` of column `n` of b lies. The swizzle XORs bits 7 to 9 of an address into its bits 4
// to 6.
const char* place_in_b(const char* b, uint32_t n, uint32_t at) {
  const uintptr_t plain = reinterpret_cast<uintptr_t>(b) + n * kRowBytes + at;
  return reinterpret_cast<const char*>(plain ^ (plain >> 3 & 0x70));
}

// Records a read of b. One thread of each warp stands for the engine, which reads for the warp.
void note_read(const Place& place, const GroupProduct& p) {
  Race* race = place.fiber.worker->launch.race.get();
  if (!race || place.thread % kLanes != 0) return;
  const uint32_t bytes = kSize * p.type->bytes;
  if (bytes == kRowBytes)
    return race->access(place.fiber, p.b, kSize * kRowBytes, kSiteWgmma, Access::kBulkRead);
  for (uint32_t n = 0; n < kSize; ++n)
    for (uint32_t at = 0; at < bytes; at += kChunkBytes)
      race->access(place.fiber, place_in_b(p.b, n, at), kChunkBytes, kSiteWgmma, Access::kBulkRead);
}

// The fragments are those of wgmma.m64nNk16 and m64nNk32 (PTX ISA): each warp has 16 rows of a and d.
uint32_t row_of(uint32_t thread, uint32_t half) {
  return thread / kLanes * 16 + thread % kLanes / 4 + half * 8;
}

template <class Visit>
void for_each_sum(const GroupProduct& p, Visit visit) {
  for (uint32_t thread = 0; thread < kGroupThreads; ++thread)
    for (uint32_t i = 0; i < 32; ++i)
      visit(p.d[thread][i], row_of(thread, i % 4 / 2), i / 4 * 8 + thread % 4 * 2 + i % 2);
}

uint32_t words_of_a(const GroupType& type) {
  return kSize * type.bytes / 8;
}

void multiply_group(const GroupProduct& p) {
  const GroupType& type = *p.type;
  const uint32_t in_word = 4 / type.bytes, step = 8 * in_word;  // elements of a word, columns of a step
  Matrix a, b, d;
  for (uint32_t thread = 0; thread < kGroupThreads; ++thread)
    for (uint32_t i = 0; i < words_of_a(type); ++i) {
      const uint32_t k = i / 4 * step + i % 4 / 2 * step / 2 + thread % 4 * in_word;
      for (uint32_t e = 0; e < in_word; ++e)
        a[row_of(thread, i % 2)][k + e] =
            type.to_float(p.a[thread][i] >> e * 8 * type.bytes & ((1u << 8 * type.bytes) - 1));
    }
  for (uint32_t n = 0; n < kSize; ++n)
    for (uint32_t k = 0; k < kSize; ++k) {
      uint32_t bits = 0;
      std::memcpy(&bits, place_in_b(p.b, n, k * type.bytes), type.bytes);
      b[k][n] = type.to_float(bits);
    }
  for_each_sum(p, [&](float& sum, uint32_t m, uint32_t n) { d[m][n] = sum; });
  for (uint32_t m = 0; m < kSize; ++m)
    for (uint32_t k = 0; k < kSize; ++k)
      for (uint32_t n = 0; n < kSize; ++n) d[m][n] += a[m][k] * b[k][n];
  for_each_sum(p, [&](float& sum, uint32_t m, uint32_t n) { sum = d[m][n]; });
}

void begin(const GroupType& type, float* d, const uint32_t* a, const void* b) {
  const char* name = collective_name(type.collective);
  const Place place = this_place(name);
  GroupProduct& product = place.group.next;
  const Worker& worker = *place.fiber.worker;
  const char* from = static_cast<const char*>(b);
  if (place.group.arrived == 0) product.type = &type, product.b = from;
  if (product.b != from) fail([&] { return fmt::format("{}: threads of a warpgroup differ in b", name); });
  if ((from - worker.shared) % kAtomBytes != 0)
    fail([&] {
      return fmt::format("{} with b at {}: must be a multiple of {}", name, describe_address(worker, b),
                         kAtomBytes);
    });
  product.d[place.thread] = d;
  std::copy_n(a, words_of_a(type), product.a[place.thread].begin());
  note_read(place, product);
  join_group(place, type.collective, [&] {
    place.group.begun.push_back(product);
    ++place.fiber.worker->stats.products;
  });
}

}  // namespace
}  // namespace mkrt::emulator

using namespace mkrt;
using namespace mkrt::emulator;

extern "C" {

void mk_wgmma_bf16(float* d, const uint32_t* a, const void* b) noexcept {
  begin(kBf16, d, a, b);
}

void mk_wgmma_f16(float* d, const uint32_t* a, const void* b) noexcept {
  begin(kF16, d, a, b);
}

void mk_wgmma_e4m3(float* d, const uint32_t* a, const void* b) noexcept {
  begin(kE4m3, d, a, b);
}

// The emulator has registers for all threads.
void mk_take_registers() noexcept {}
void mk_leave_registers() noexcept {}

void mk_wgmma_wait(float*) noexcept {
  const Place place = this_place("mk_wgmma_wait");
  for (const GroupProduct& product : place.group.begun) note_read(place, product);
  join_group(place, Collective::kWgmmaWait, [&] {
    for (const GroupProduct& product : place.group.begun) multiply_group(product);
    place.group.begun.clear();
  });
}
}
