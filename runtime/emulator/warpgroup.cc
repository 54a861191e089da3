#include "runtime/emulator/warpgroup.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/half.h"
#include "runtime/emulator/launch.h"
#include "runtime/emulator/primitives.h"

namespace mkrt::emulator {
namespace {

constexpr uint32_t kSize = 64;         // of m, n and k
constexpr uint32_t kRowBytes = 128;    // bytes of one column of b, whose elements run along k
constexpr uint32_t kAtomBytes = 1024;  // 8 rows, after which the swizzle repeats
using Matrix = std::array<std::array<float, kSize>, kSize>;

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
void join(const Place& place, Collective collective, Complete complete) {
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

// Records a read of b. One thread of each warp stands for the engine, which reads for the warp.
void note_read(const Place& place, const char* b) {
  Race* race = place.fiber.worker->launch.race.get();
  if (race && place.thread % kLanes == 0)
    race->access(place.fiber, b, kSize * kRowBytes, kSiteWgmma, Access::kBulkRead);
}

// The fragments are those of wgmma.m64nNk16 (PTX ISA): each warp has 16 rows of a and d.
uint32_t row_of(uint32_t thread, uint32_t half) {
  return thread / kLanes * 16 + thread % kLanes / 4 + half * 8;
}

template <class Visit>
void for_each_sum(const GroupProduct& p, Visit visit) {
  for (uint32_t thread = 0; thread < kGroupThreads; ++thread)
    for (uint32_t i = 0; i < 32; ++i)
      visit(p.d[thread][i], row_of(thread, i % 4 / 2), i / 4 * 8 + thread % 4 * 2 + i % 2);
}

template <class ToFloat>
void multiply(const GroupProduct& p, ToFloat to_float) {
  Matrix a, b, d;
  for (uint32_t thread = 0; thread < kGroupThreads; ++thread)
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t k = i / 4 * 16 + i % 4 / 2 * 8 + thread % 4 * 2;
      float* to = &a[row_of(thread, i % 2)][k];
      to[0] = to_float(p.a[thread][i] & 0xffff);
      to[1] = to_float(p.a[thread][i] >> 16);
    }
  for (uint32_t n = 0; n < kSize; ++n)
    for (uint32_t k = 0; k < kSize; ++k) {
      // The swizzle XORs bits 7 to 9 of an address into its bits 4 to 6.
      const uintptr_t plain = reinterpret_cast<uintptr_t>(p.b) + n * kRowBytes + k * 2;
      b[k][n] = to_float(*reinterpret_cast<const uint16_t*>(plain ^ (plain >> 3 & 0x70)));
    }
  for_each_sum(p, [&](float& sum, uint32_t m, uint32_t n) { d[m][n] = sum; });
  for (uint32_t m = 0; m < kSize; ++m)
    for (uint32_t k = 0; k < kSize; ++k)
      for (uint32_t n = 0; n < kSize; ++n) d[m][n] += a[m][k] * b[k][n];
  for_each_sum(p, [&](float& sum, uint32_t m, uint32_t n) { sum = d[m][n]; });
}

void begin(const char* name, Collective collective, float* d, const uint32_t* a, const void* b) {
  const Place place = this_place(name);
  GroupProduct& product = place.group.next;
  const Worker& worker = *place.fiber.worker;
  const char* from = static_cast<const char*>(b);
  if (place.group.arrived == 0) product.b = from;
  if (product.b != from) fail([&] { return fmt::format("{}: threads of a warpgroup differ in b", name); });
  if ((from - worker.shared) % kAtomBytes != 0)
    fail([&] {
      return fmt::format("{} with b at {}: must be a multiple of {}", name, describe_address(worker, b),
                         kAtomBytes);
    });
  product.f16 = collective == Collective::kWgmmaF16;
  product.d[place.thread] = d;
  std::copy_n(a, product.a[place.thread].size(), product.a[place.thread].begin());
  note_read(place, from);
  join(place, collective, [&] {
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
  begin("mk_wgmma_bf16", Collective::kWgmmaBf16, d, a, b);
}

void mk_wgmma_f16(float* d, const uint32_t* a, const void* b) noexcept {
  begin("mk_wgmma_f16", Collective::kWgmmaF16, d, a, b);
}

// The emulator has registers for all threads.
void mk_take_registers() noexcept {}
void mk_leave_registers() noexcept {}

void mk_wgmma_wait(float*) noexcept {
  const Place place = this_place("mk_wgmma_wait");
  for (const GroupProduct& product : place.group.begun) note_read(place, product.b);
  join(place, Collective::kWgmmaWait, [&] {
    for (const GroupProduct& product : place.group.begun)
      product.f16 ? multiply(product, f16_to_f32) : multiply(product, bf16_to_f32);
    place.group.begun.clear();
  });
}
}
