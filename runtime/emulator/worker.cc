#include "runtime/emulator/worker.h"

#include <bit>
#include <cstdlib>
#include <utility>

#include "runtime/emulator/atomic.h"
#include "runtime/emulator/launch.h"

namespace mkrt::emulator {
namespace {

thread_local Worker* running = nullptr;

constexpr uint64_t kStepsPerNs = 64;
constexpr uint32_t kSharedAlignment = 1024;
constexpr uint32_t kMaxSlice = 4096;
constexpr uint32_t kSliceScales = 8;
constexpr uint32_t kShuffleOneIn = 8;  // one switch in so many takes a random fiber, under a seed

uint32_t load(const void* counter) {
  return atomic(static_cast<const uint32_t*>(counter)).load(std::memory_order_acquire);
}

bool wake_satisfied(Worker& worker) {
  const size_t before = worker.polling.size();
  std::erase_if(worker.polling, [](Fiber* fiber) {
    const bool satisfied = load(fiber->wait.object) >= fiber->wait.number;
    if (satisfied) wake(*fiber);
    return satisfied;
  });
  return worker.polling.size() != before;
}

// Fetches what the switches after this one touch first. The stacks of a worker's threads are larger than the
// first cache.
void prefetch(const ReadyQueue& ready) {
  constexpr uint32_t kLineBytes = 64, kStackLines = 4, kFiberLines = sizeof(Fiber) / kLineBytes;
  const auto fetch = [](const void* first, uint32_t lines) {
    for (uint32_t i = 0; i < lines; ++i) __builtin_prefetch(static_cast<const char*>(first) + i * kLineBytes);
  };
  if (ready.size() > 2) fetch(ready.peek(2), kFiberLines);
  if (!ready.empty()) fetch(ready.peek(0)->context.sp, kStackLines);
}

Fiber* pick(Worker& worker) {
  if (worker.ready.empty()) return nullptr;
  if (worker.launch.options.seed != 0 && worker.random.below(kShuffleOneIn) == 0)
    worker.ready.promote(worker.random.below(worker.ready.size()));
  Fiber* next = worker.ready.pop();
  prefetch(worker.ready);
  return next;
}

// Leaves the running fiber. The caller has put the fiber where it will be woken from.
void dispatch(Worker& worker, bool last = false) {
  Fiber& from = *worker.current;
  ++worker.steps;
  if (worker.steps >= worker.copies.next_due) complete_due_copies(worker);
  Fiber* next = --worker.slice == 0 ? nullptr : pick(worker);
  if (next == &from) return;
  worker.current = next;
  switch_context(from.context, next != nullptr ? next->context : worker.main, last);
}

void fiber_main() {
  finish_first_switch();
  Worker& worker = *running;
  worker.launch.kernel(worker.launch.session, worker.launch.step);
  worker.current->wait = {Wait::Kind::kDone};
  ++worker.progress;
  if (--worker.live == 0) check_copies_awaited(worker);
  dispatch(worker, true);
  std::abort();
}

}  // namespace

ReadyQueue::ReadyQueue(uint32_t capacity) : slots_(std::bit_ceil(capacity)) {
  mask_ = static_cast<uint32_t>(slots_.size()) - 1;
}

uint32_t Random::below(uint32_t n) {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  return static_cast<uint32_t>(((state_ * 0x2545f4914f6cdd1du) >> 32) * n >> 32);
}

Worker::Worker(Launch& owner, uint32_t index, Stacks mapped)
    : launch(owner),
      id(index),
      shared_storage(owner.options.shared_bytes + 2 * kSharedMargin + kSharedAlignment),
      stacks(std::move(mapped)),
      fibers(owner.options.threads_per_worker),
      ready(owner.options.threads_per_worker),
      live(owner.options.threads_per_worker),
      random(owner.options.seed * 1000003 + index),
      max_slice(kMaxSlice >> random.below(kSliceScales)),
      impatient(owner.options.seed != 0 && random.below(2) == 0),
      warps(owner.options.threads_per_worker / kLanes),
      warpgroups(owner.options.threads_per_worker / kGroupThreads) {
  const auto start = reinterpret_cast<uintptr_t>(shared_storage.data()) + kSharedMargin;
  shared = reinterpret_cast<char*>((start + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment);
  mkrt::spoil(shared, owner.options.shared_bytes);
  mbarriers.by_word.resize(owner.options.shared_bytes / sizeof(uint64_t));
  for (uint32_t thread = 0; thread < fibers.size(); ++thread) {
    Fiber& fiber = fibers[thread];
    fiber.context = stacks.prepare(thread, fiber_main);
    fiber.worker = this;
    fiber.thread = thread;
    if (launch.race) fiber.agent = launch.race->thread_agent(id, thread);
    ready.push(&fiber);
  }
}

Worker::~Worker() {
  for (Fiber& fiber : fibers) discard_context(fiber.context);
}

Fiber& self() {
  return *running->current;
}

Fiber* running_fiber() {
  return running == nullptr ? nullptr : running->current;
}

uint64_t now_ns(const Worker& worker) {
  return worker.launch.time_offset_ns.load(std::memory_order_relaxed) + worker.steps / kStepsPerNs;
}

void wake(Fiber& fiber) {
  fiber.worker->ready.push(&fiber);
}

void suspend(Wait wait) {
  Fiber& fiber = self();
  if (fiber.wait.kind != wait.kind || fiber.wait.object != wait.object || fiber.wait.number != wait.number)
    fiber.waits_since_ns = now_ns(*fiber.worker);
  fiber.wait = wait;
  fiber.polls = 0;
  ++fiber.worker->stats.switches;
  dispatch(*fiber.worker);
}

bool run_slice(Worker& worker) {
  if (Disturber* disturber = worker.launch.disturber.get()) disturber->turn();
  if (worker.halted) return false;
  running = &worker;
  const bool seeded = worker.launch.options.seed != 0;
  worker.slice = seeded ? 1 + worker.random.below(worker.max_slice) : ~0u;
  bool ran = false;
  while (worker.slice != 0 && !worker.launch.over.load(std::memory_order_relaxed)) {
    Fiber* next = pick(worker);
    if (next != nullptr) {
      ran = true;
      worker.main = thread_context();
      worker.current = next;
      switch_context(worker.main, next->context);
    } else if (!wake_satisfied(worker) && !complete_next_copy(worker)) {
      break;
    }
  }
  running = nullptr;
  return ran;
}

uint32_t wake_pollers(Worker& worker, bool spinning_only) {
  uint32_t woken = 0;
  if (worker.halted) return woken;
  for (Fiber& fiber : worker.fibers) {
    const Wait::Kind kind = fiber.wait.kind;
    const bool polls = kind == Wait::Kind::kCounter || kind == Wait::Kind::kMbarrier;
    if (kind != Wait::Kind::kSpin && (spinning_only || !polls)) continue;
    // An mbarrier that was overwritten meanwhile is found by the fiber, which can name itself in the error.
    if (kind == Wait::Kind::kMbarrier)
      for (Mbarrier& bar : worker.mbarriers.all)
        if (bar.word == fiber.wait.object) std::erase(bar.waiters, &fiber);
    wake(fiber);
    ++woken;
  }
  if (!spinning_only) worker.polling.clear();
  return woken;
}

void record_misuse(const std::string& message) {
  const Fiber& fiber = self();
  set_failure(fiber.worker->launch, describe(fiber) + ": " + message);
}

void fail_worker(Worker& worker, std::string message) {
  set_failure(worker.launch, std::move(message));
  worker.slice = 1;  // the next switch returns to the OS thread, which ends the launch
}

void abandon() {
  Fiber& fiber = self();
  fiber.worker->current = nullptr;
  switch_context(fiber.context, fiber.worker->main);
  std::abort();
}

}  // namespace mkrt::emulator
