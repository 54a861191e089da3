#include "runtime/emulator/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/emulator/guard.h"

namespace mkrt::emulator {
namespace {

// The number of consecutive stalls without progress after which the launch counts as deadlocked.
constexpr uint32_t kMaxFruitless = 16;

uint64_t total_progress(const Launch& launch) {
  uint64_t total = launch.changes.load();
  for (const auto& worker : launch.workers) total += worker->progress;
  return total;
}

// The number of time jumps per worker after which a launch counts as a livelock. Faults of small models take
// 80 jumps in all.
constexpr uint64_t kMaxJumps = 10'000;

// Advances virtual time past the earliest deadline of the fibers that poll. A deadline is at most the step's
// timeout after the begin of a fiber's wait.
void jump_time(Launch& launch) {
  const uint64_t timeout = launch.step->timeout_ns;
  uint64_t jump = timeout + 1;
  for (const auto& worker : launch.workers) {
    if (worker->halted) continue;
    for (const Fiber& fiber : worker->fibers) {
      const bool polls = fiber.wait.kind == Wait::Kind::kCounter || fiber.wait.kind == Wait::Kind::kMbarrier;
      const uint64_t deadline = fiber.waits_since_ns + timeout + 1, now = now_ns(*worker);
      if (polls && deadline > now) jump = std::min(jump, deadline - now);
    }
  }
  launch.time_offset_ns += jump;
  ++launch.time_jumps;
  if (launch.disturber) launch.disturber->pass_deadline();
}

void end_stalled(Launch& launch, std::string failure) {
  for (const auto& worker : launch.workers) failure += describe_waits(*worker);
  launch.failure = std::move(failure);
  launch.over = true;
}

// Called when no fiber of any worker can run and all other OS threads wait. Wakes the fibers that poll, or
// ends the launch.
void resolve_stall(Launch& launch) {
  if (launch.disturber && launch.disturber->release_stalled()) return;
  if (launch.time_jumps >= kMaxJumps * launch.workers.size())
    return end_stalled(launch, fmt::format("livelock: {} deadlines passed:", launch.time_jumps));
  const uint64_t progress = total_progress(launch);
  launch.fruitless = progress == launch.last_progress ? launch.fruitless + 1 : 0;
  uint32_t woken = 0;
  if (launch.fruitless == 0)
    for (auto& worker : launch.workers) woken += wake_pollers(*worker, /*spinning_only=*/true);
  if (woken == 0 && launch.fruitless < kMaxFruitless && launch.step->timeout_ns != 0) {
    jump_time(launch);
    for (auto& worker : launch.workers) woken += wake_pollers(*worker, /*spinning_only=*/false);
  }
  ++launch.changes;
  launch.last_progress = progress + 1;
  if (woken == 0) end_stalled(launch, "deadlock:");
}

// Called when the OS thread found nothing to run after it saw change number `seen`. Returns when there may be
// something to run.
void wait_for_change(Launch& launch, uint64_t seen) {
  std::unique_lock lock(launch.mutex);
  if (launch.changes != seen || launch.over) return;
  if (launch.idle_at != seen) launch.idle = 0;
  launch.idle_at = seen;
  if (++launch.idle == launch.active) {
    resolve_stall(launch);
    launch.changed.notify_all();
    return;
  }
  ++launch.waiting;
  launch.changed.wait(lock, [&] { return launch.changes != seen || launch.over; });
  --launch.waiting;
}

}  // namespace

void note_change(Launch& launch) {
  ++launch.changes;
  if (launch.waiting == 0) return;
  const std::lock_guard lock(launch.mutex);
  launch.changed.notify_all();
}

void end_launch(Launch& launch) {
  const std::lock_guard lock(launch.mutex);
  launch.over = true;
  launch.changed.notify_all();
}

void set_failure(Launch& launch, std::string message) {
  const std::lock_guard lock(launch.mutex);
  if (launch.failure.empty()) launch.failure = std::move(message);
  launch.over = true;
  launch.changed.notify_all();
}

void run_workers(Launch& launch, uint32_t first, uint32_t stride) {
  std::vector<Worker*> mine;
  for (uint32_t id = first; id < launch.workers.size(); id += stride)
    mine.push_back(launch.workers[id].get());
  const Guard guard(launch.options.patience_ms);
  Random random(launch.options.seed + first);
  while (!launch.over) {
    std::erase_if(mine, [](const Worker* worker) { return worker->live == 0; });
    if (mine.empty()) break;
    if (launch.options.seed != 0)
      std::swap(mine.front(), mine[random.below(static_cast<uint32_t>(mine.size()))]);
    const uint64_t seen = launch.changes;
    bool ran = false;
    for (Worker* worker : mine) ran |= run_slice(*worker);
    if (!ran) wait_for_change(launch, seen);
  }
  const std::lock_guard lock(launch.mutex);
  --launch.active;
  ++launch.changes;  // makes the other OS threads count anew which are idle
  launch.changed.notify_all();
}

}  // namespace mkrt::emulator
