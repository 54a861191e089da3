// A worker has named barriers (PTX ISA, barrier.cta). A thread has a position in worker and launch.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "runtime/emulator/launch.h"
#include "runtime/emulator/primitives.h"

namespace mkrt::emulator {
namespace {

// Barriers are bar.sync, which is .aligned: all lanes of a warp execute it.
void check_whole_warps(const NamedBarrier& barrier, uint32_t id) {
  if (static_cast<uint32_t>(std::popcount(barrier.warps)) * kLanes == barrier.threads) return;
  std::array<uint32_t, 32> lanes{};  // lanes that arrived, by warp
  for (const Fiber* fiber : barrier.arrived) ++lanes[fiber->thread / kLanes];
  const auto partial = std::ranges::find_if(lanes, [](uint32_t n) { return n % kLanes != 0; });
  fail([&] {
    return fmt::format(
        "diverged: mk_barrier {} of {} threads: {} lanes of warp {} came to it, expected all {}", id,
        barrier.threads, *partial, partial - lanes.begin(), kLanes);
  });
}

}  // namespace
}  // namespace mkrt::emulator

using namespace mkrt::emulator;

extern "C" {

uint32_t mk_thread() noexcept {
  return self().thread;
}

uint32_t mk_worker() noexcept {
  return self().worker->id;
}

char* mk_shared() noexcept {
  return self().worker->shared;
}

void mk_barrier(uint32_t id, uint32_t threads) noexcept {
  Fiber& fiber = self();
  Worker& worker = *fiber.worker;
  if (id >= kNamedBarriers)
    fail([&] { return fmt::format("mk_barrier {} is above {}", id, kNamedBarriers - 1); });
  if (threads == 0 || threads % kLanes != 0 || threads > worker.fibers.size())
    fail([&] {
      return fmt::format("mk_barrier {} of {} threads: must be a multiple of {} up to {}", id, threads,
                         kLanes, worker.fibers.size());
    });
  NamedBarrier& barrier = worker.barriers[id];
  if (barrier.arrived.empty()) barrier.threads = threads;
  if (barrier.threads != threads)
    fail([&] {
      return fmt::format("mk_barrier {} of {} threads, but thread {} came to it with {}", id, threads,
                         barrier.arrived.front()->thread, barrier.threads);
    });
  barrier.arrived.push_back(&fiber);
  barrier.warps |= 1u << fiber.thread / kLanes;
  if (barrier.arrived.size() < threads) return suspend({Wait::Kind::kBarrier, nullptr, id});
  check_whole_warps(barrier, id);
  ++worker.stats.barriers;
  if (worker.launch.race) worker.launch.race->synchronise(barrier.arrived);
  note_barrier(worker);
  barrier.arrived.pop_back();
  for (Fiber* other : barrier.arrived) wake(*other);
  barrier.arrived.clear();
  barrier.warps = 0;
}

// Launches never overlap on the emulator.
void mk_start_next() noexcept {}
void mk_await_kernels() noexcept {}

bool mk_tracing() noexcept {
  return false;
}

uint64_t mk_stamp_time() noexcept {
  return self().worker->launch.stamps.fetch_add(1, std::memory_order_relaxed) + 1;
}

void mk_task_begin(uint32_t grid, uint32_t task) noexcept {
  Fiber& fiber = self();
  Warp& warp = fiber.worker->warps[fiber.thread / kLanes];
  warp.in_task = true;
  fiber.worker->spoil.between_tasks = false;
  if (warp.grid == grid && warp.task == task) return;
  warp.grid = grid;
  warp.task = task;
  ++fiber.worker->stats.tasks;
  if (Race* race = fiber.worker->launch.race.get()) race->note_task(fiber.agent, grid, task);
}

void mk_task_end(uint32_t grid, uint32_t first, uint32_t count) noexcept {
  Fiber& fiber = self();
  const mkrt::EmulatorOptions& options = fiber.worker->launch.options;
  if (fiber.thread == 0 && options.after_tasks) options.after_tasks(grid, first, count);
  if (fiber.thread % kLanes == 0) fiber.worker->warps[fiber.thread / kLanes].in_task = false;
  fiber.works_for.count = 0;
}

void mk_task_ready(uint32_t grid, uint32_t task, uint32_t tasks) noexcept {
  self().works_for = {grid, task, tasks};
  const mkrt::EmulatorOptions& options = self().worker->launch.options;
  if (options.before_task) options.before_task(grid);
}

void mk_load_begin(uint32_t grid, uint32_t first, uint32_t tasks) noexcept {
  self().works_for = {grid, first, tasks};
}

void mk_load_end() noexcept {
  self().works_for.count = 0;
}
}
