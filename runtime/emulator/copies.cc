#include "runtime/emulator/copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/emulator/access_rules.h"
#include "runtime/emulator/launch.h"
#include "runtime/emulator/primitives.h"
#include "runtime/emulator/spoil.h"

namespace mkrt::emulator {
namespace {

constexpr uint32_t kFixedDelaySteps = 64;
// A delay under a seed is random at a random scale. Copies may end at once or after several tasks.
constexpr uint32_t kSmallestDelaySteps = 512;
constexpr uint32_t kDelayScales = 9;  // each twice the one before

uint64_t first_due(const CopyEngine& engine) {
  uint64_t due = std::numeric_limits<uint64_t>::max();
  for (const Copy& copy : engine.in_flight) due = std::min(due, copy.due_step);
  return due;
}

bool in_shared(const Worker& worker, const char* p, uint32_t bytes) {
  return p >= worker.shared && p + bytes <= worker.shared + worker.launch.options.shared_bytes;
}

void check_copy(const Worker& worker, const char* name, const void* dst, const void* src, uint32_t bytes) {
  const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  if (bytes == 0 || bytes % 16 != 0 || !aligned(dst) || !aligned(src))
    fail([&] {
      return fmt::format("{} of {} bytes from {} to {}: addresses and size must be multiples of 16", name,
                         bytes, describe_address(worker, src), describe_address(worker, dst));
    });
  if (!in_shared(worker, static_cast<const char*>(dst), bytes))
    fail([&] {
      return fmt::format("{} of {} bytes to {}: not in shared memory", name, bytes,
                         describe_address(worker, dst));
    });
  // The source is read here, so that a source that is not mapped ends the launch by the thread that issued
  // the copy.
  constexpr uint32_t kPageBytes = 4096;
  const auto* from = static_cast<const volatile char*>(src);
  for (uint32_t i = 0; i < bytes; i += kPageBytes) static_cast<void>(from[i]);
  static_cast<void>(from[bytes - 1]);
}

void issue(Worker& worker, Copy copy) {
  spoil(copy.destination, copy.bytes);
  uint32_t delay = kFixedDelaySteps;
  if (worker.launch.options.seed != 0)
    delay = 1 + worker.random.below(kSmallestDelaySteps << worker.random.below(kDelayScales));
  copy.due_step = worker.steps + delay;
  if (Disturber* disturber = worker.launch.disturber.get()) disturber->issues(worker, copy);
  if (copy.held) copy.due_step = std::numeric_limits<uint64_t>::max();
  worker.copies.next_due = std::min(worker.copies.next_due, copy.due_step);
  worker.copies.in_flight.push_back(copy);
  ++worker.stats.copies;
  worker.stats.copied_bytes += copy.bytes;
  if (!copy.early || copy.mbarrier == kNoMbarrier) return;
  Mbarrier& bar = worker.mbarriers.all[copy.mbarrier];
  bar.copied_until = bar.phase + 1;
  complete_bytes(worker, bar, copy.bytes);
}

void arrive_async(Worker& worker, const AsyncArrival& arrival) {
  Mbarrier& bar = worker.mbarriers.all[arrival.mbarrier];
  if (bar.pending == 0) {
    return fail_worker(
        worker, fmt::format("worker {} thread {}: the mbarrier at {} has had all {} arrivals of its phase "
                            "already when the thread's copies arrive (mk_async_arrive)",
                            worker.id, arrival.thread, describe_address(worker, bar.word), bar.arrivals));
  }
  bar.copied_until = bar.phase + 1;
  if (worker.launch.race) worker.launch.race->complete(bar.arriving, arrival.epoch);
  arrive(worker, bar);
}

// Tells whether the mbarrier has counted bytes that are not there yet. The race detector knows the copies on
// one mbarrier by their newest, which would stand for the missing copy.
bool announced_early(const Worker& worker, uint32_t mbarrier) {
  return worker.launch.disturber &&
         std::any_of(worker.copies.in_flight.begin(), worker.copies.in_flight.end(),
                     [&](const Copy& c) { return c.early && c.mbarrier == mbarrier; });
}

void finish(Worker& worker, const Copy& copy) {
  std::memcpy(copy.destination, copy.source, copy.bytes);
  ++worker.progress;
  if (copy.early) return;
  if (copy.mbarrier != kNoMbarrier) {
    Mbarrier& bar = worker.mbarriers.all[copy.mbarrier];
    bar.copied_until = bar.phase + 1;
    if (worker.launch.race && !announced_early(worker, copy.mbarrier))
      worker.launch.race->complete(bar.arriving, copy.epoch);
    return complete_bytes(worker, bar, copy.bytes);
  }
  for (AsyncArrival& arrival : worker.copies.arrivals)
    if (arrival.thread == copy.thread && copy.serial <= arrival.serial && --arrival.missing == 0)
      arrive_async(worker, arrival);
  std::erase_if(worker.copies.arrivals, [](const AsyncArrival& arrival) { return arrival.missing == 0; });
}

void complete_at(Worker& worker, size_t index) {
  auto& in_flight = worker.copies.in_flight;
  const Copy copy = in_flight[index];
  in_flight.erase(in_flight.begin() + static_cast<ptrdiff_t>(index));
  finish(worker, copy);
}

}  // namespace

void complete_due_copies(Worker& worker) {
  auto& in_flight = worker.copies.in_flight;
  for (size_t i = 0; i < in_flight.size();)
    if (in_flight[i].due_step <= worker.steps)
      complete_at(worker, i);
    else
      ++i;
  worker.copies.next_due = first_due(worker.copies);
}

void check_copies_awaited(const Worker& worker) {
  bool awaited = worker.copies.in_flight.empty();
  for (const Mbarrier& bar : worker.mbarriers.all) awaited &= bar.copied_until <= bar.seen_until;
  if (!awaited) record_misuse("ends the worker, and nobody waited for all copies into its shared memory");
}

bool complete_next_copy(Worker& worker) {
  auto& in_flight = worker.copies.in_flight;
  if (in_flight.empty()) return false;
  const auto next = std::min_element(in_flight.begin(), in_flight.end(),
                                     [](const Copy& a, const Copy& b) { return a.due_step < b.due_step; });
  if (next->held) return false;
  complete_at(worker, static_cast<size_t>(next - in_flight.begin()));
  worker.copies.next_due = first_due(worker.copies);
  return true;
}

}  // namespace mkrt::emulator

using namespace mkrt::emulator;

extern "C" {

void mk_bulk_load(void* dst, const void* src, uint32_t bytes, uint64_t* word, uint64_t) noexcept {
  Fiber& fiber = self();
  Worker& worker = *fiber.worker;
  check_copy(worker, "mk_bulk_load", dst, src, bytes);
  check_access(fiber, src, bytes, kNoSite, false);
  const Mbarrier& bar = find_mbarrier(worker, word);
  if (!bar.fenced)
    fail([&] {
      return fmt::format(
          "mk_bulk_load on the mbarrier at {} before mk_fence_mbar_init by the thread that made it",
          describe_address(worker, word));
    });
  Copy copy{static_cast<char*>(dst), static_cast<const char*>(src), bytes, bar.index, fiber.thread, 0, {}};
  if (worker.launch.race)
    copy.epoch = worker.launch.race->begin_bulk(fiber.agent, bar.index, dst, src, bytes);
  issue(worker, copy);
}

uint64_t mk_l2_policy(bool) noexcept {
  return 0;  // there is no L2
}

void mk_async_load16(void* dst, const void* src) noexcept {
  Fiber& fiber = self();
  Worker& worker = *fiber.worker;
  constexpr uint32_t kBytes = 16;
  check_copy(worker, "mk_async_load16", dst, src, kBytes);
  check_access(fiber, src, kBytes, kNoSite, false);
  Copy copy{static_cast<char*>(dst), static_cast<const char*>(src), kBytes, kNoMbarrier, fiber.thread, 0, {}};
  if (worker.launch.race) copy.epoch = worker.launch.race->begin_async(fiber.agent, dst, src, kBytes);
  copy.serial = ++worker.copies.serial;
  issue(worker, copy);
}

void mk_async_arrive(uint64_t* word) noexcept {
  Fiber& fiber = self();
  Worker& worker = *fiber.worker;
  Mbarrier& bar = find_mbarrier(worker, word);
  if (bar.pending == kMaxArrivals)
    fail([&] {
      return fmt::format(
          "mk_async_arrive: the mbarrier at {} waits for {} arrivals already, the most there are",
          describe_address(worker, word), kMaxArrivals);
    });
  ++bar.pending;
  AsyncArrival arrival{fiber.thread, bar.index, 0, {}};
  if (worker.launch.race) arrival.epoch = worker.launch.race->async_epoch(fiber.agent);
  arrival.serial = worker.copies.serial;
  for (const Copy& copy : worker.copies.in_flight) {
    if (copy.mbarrier != kNoMbarrier || copy.thread != fiber.thread) continue;
    if (copy.early)
      arrival.epoch = {};  // no waiter knows that the bytes are there
    else
      ++arrival.missing;
  }
  if (arrival.missing == 0) return arrive_async(worker, arrival);
  worker.copies.arrivals.push_back(arrival);
}

void mk_fence_proxy_async() noexcept {
  const Fiber& fiber = self();
  if (Race* race = fiber.worker->launch.race.get()) race->fence_proxy(fiber.agent);
}
}
