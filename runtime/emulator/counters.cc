// Counters lie in global memory, and time is virtual.
#include "runtime/emulator/atomic.h"
#include "runtime/emulator/launch.h"
#include "runtime/emulator/primitives.h"

using namespace mkrt::emulator;

namespace {

// A fiber spins after this many polls without being suspended, and lets all others run.
constexpr uint32_t kMaxPolls = 1 << 14;

// The thread sanitizer knows no fences. Under it the notification behind a fence is a release itself.
#if __has_feature(thread_sanitizer)
constexpr std::memory_order kBehindFence = std::memory_order_release;
#else
constexpr std::memory_order kBehindFence = std::memory_order_relaxed;
#endif

void note_poll(Fiber& fiber) {
  if (++fiber.polls >= kMaxPolls) suspend({Wait::Kind::kSpin, nullptr, 0});
}

Race* race_of(const Fiber& fiber) {
  return fiber.worker->launch.race.get();
}

void note_access(const Fiber& fiber, const uint32_t* p, Access access) {
  if (Race* race = race_of(fiber)) race->access(fiber, p, sizeof *p, mkrt::kSiteAtomic, access);
}

Disturber* disturber_of(const Fiber& fiber) {
  return fiber.worker->launch.disturber.get();
}

// Called before a thread reads a counter.
void note_look(Fiber& fiber) {
  note_poll(fiber);
  if (Disturber* disturber = disturber_of(fiber)) disturber->moment();
}

}  // namespace

extern "C" {

uint64_t mk_time_ns() noexcept {
  Fiber& fiber = self();
  note_poll(fiber);
  return now_ns(*fiber.worker);
}

uint32_t mk_load_acquire(const uint32_t* p) noexcept {
  Fiber& fiber = self();
  note_look(fiber);
  note_access(fiber, p, Access::kAtomicRead);
  const uint32_t value = atomic(p).load(std::memory_order_acquire);
  if (Race* race = race_of(fiber)) race->acquire(fiber.agent, race->counter(p));
  return value;
}

uint32_t mk_load_relaxed(const uint32_t* p) noexcept {
  Fiber& fiber = self();
  note_look(fiber);
  note_access(fiber, p, Access::kAtomicRead);
  return atomic(p).load(std::memory_order_relaxed);
}

void mk_fence_release() noexcept {
  const Fiber& fiber = self();
  if (Race* race = race_of(fiber)) race->fence_release(fiber.agent);
  std::atomic_thread_fence(std::memory_order_release);
}

void mk_red_relaxed(uint32_t* p, uint32_t n) noexcept {
  Fiber& fiber = self();
  Launch& launch = fiber.worker->launch;
  note_access(fiber, p, Access::kAtomicWrite);
  ++launch.notifications;
  if (launch.disturber && !launch.disturber->adds(p, n)) return;
  if (Race* race = race_of(fiber)) race->release_fenced(fiber.agent, race->counter(p));
  atomic(p).fetch_add(n, kBehindFence);
  note_change(launch);
}

uint32_t mk_add_acq_rel(uint32_t* p, uint32_t n) noexcept {
  Fiber& fiber = self();
  Launch& launch = fiber.worker->launch;
  note_access(fiber, p, Access::kAtomicWrite);
  ++launch.notifications;
  if (launch.disturber && !launch.disturber->takes(Disturber::Place::kNotification, p, n))
    return atomic(p).load(std::memory_order_acquire);
  if (Race* race = race_of(fiber)) {
    race->acquire(fiber.agent, race->counter(p));
    race->release_device(fiber.agent, race->counter(p));
  }
  const uint32_t before = atomic(p).fetch_add(n, std::memory_order_acq_rel);
  note_change(launch);
  return before;
}

uint32_t mk_add_relaxed(uint32_t* p, uint32_t n) noexcept {
  Fiber& fiber = self();
  note_access(fiber, p, Access::kAtomicWrite);
  Disturber* disturber = disturber_of(fiber);
  if (disturber && !disturber->takes(Disturber::Place::kTicket, p, n)) n = 0;
  const uint32_t before = atomic(p).fetch_add(n, std::memory_order_relaxed);
  note_change(fiber.worker->launch);
  return before;
}

uint32_t mk_cas_relaxed(uint32_t* p, uint32_t expected, uint32_t desired) noexcept {
  Fiber& fiber = self();
  note_poll(fiber);
  note_access(fiber, p, Access::kAtomicWrite);
  uint32_t seen = expected;
  if (atomic(p).compare_exchange_strong(seen, desired, std::memory_order_relaxed))
    note_change(fiber.worker->launch);
  return seen;
}

void mk_store_release(uint32_t* p, uint32_t v) noexcept {
  Fiber& fiber = self();
  const Launch& launch = fiber.worker->launch;
  if (p == &launch.step->begun) {
    if (launch.options.after_step) launch.options.after_step();
    if (launch.disturber) launch.disturber->end_step();
    if (v != mkrt::kLaunchOver && launch.options.before_step) launch.options.before_step();
  }
  note_access(fiber, p, Access::kAtomicWrite);
  if (Race* race = race_of(fiber)) {
    race->counter(p) = {};  // a plain store ends the earlier release sequence
    race->release_device(fiber.agent, race->counter(p));
  }
  if (launch.disturber && !launch.disturber->stores(p, v)) return;
  atomic(p).store(v, std::memory_order_release);
  note_change(fiber.worker->launch);
}

void mk_pause(const uint32_t* p, uint32_t want) noexcept {
  Fiber& fiber = self();
  note_poll(fiber);
  if (atomic(p).load(std::memory_order_relaxed) >= want) return;
  fiber.worker->polling.push_back(&fiber);
  suspend({Wait::Kind::kCounter, p, want});
}
}
