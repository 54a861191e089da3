// Messages say which fibers are meant and what they wait for.
#include <fmt/format.h>

#include "runtime/emulator/atomic.h"
#include "runtime/emulator/launch.h"

namespace mkrt::emulator {
namespace {

uint32_t value_of(const void* counter) {
  return atomic(static_cast<const uint32_t*>(counter)).load(std::memory_order_relaxed);
}

std::string describe_wait(const Worker& worker, const Wait& wait) {
  switch (wait.kind) {
    case Wait::Kind::kBarrier: {
      const NamedBarrier& barrier = worker.barriers[wait.number];
      return fmt::format("wait in barrier {} ({} of {} threads arrived)", wait.number, barrier.arrived.size(),
                         barrier.threads);
    }
    case Wait::Kind::kCollective:
      return fmt::format("wait in {} for the rest of the warp",
                         collective_name(static_cast<Collective>(wait.number)));
    case Wait::Kind::kCounter:
      return fmt::format("wait for the counter at {} (seen {}, want {})",
                         describe_address(worker, wait.object), value_of(wait.object), wait.number);
    case Wait::Kind::kMbarrier: {
      for (const Mbarrier& bar : worker.mbarriers.all)
        if (bar.word == wait.object)
          return fmt::format("wait for the mbarrier at {} (parity {}; missing {} arrivals and {} bytes)",
                             describe_address(worker, wait.object), wait.number, bar.pending,
                             bar.missing_bytes);
      return "wait for an mbarrier";
    }
    case Wait::Kind::kSpin:
      return "spin";
    case Wait::Kind::kHeld:
      return "are held back";
    case Wait::Kind::kNone:
      return "have not run";
    case Wait::Kind::kDone:
      return "are done";
  }
  return {};
}

}  // namespace

std::string describe(const Fiber& fiber) {
  const Warp& warp = fiber.worker->warps[fiber.thread / kLanes];
  return fmt::format("worker {} thread {}{}", fiber.worker->id, fiber.thread,
                     describe_task(fiber.worker->launch.names, warp.grid, warp.task));
}

std::string describe_task(const EmulatorNames& names, uint32_t grid, uint32_t task) {
  if (grid == RaceParty::kNoTask) return {};
  std::string name = names.grid ? names.grid(grid) : std::string();
  if (name.empty()) name = fmt::format("grid {}", grid);
  return fmt::format(", task {}[{}]", name, task);
}

std::string describe_address(const Worker& worker, const void* p) {
  const auto offset = reinterpret_cast<intptr_t>(p) - reinterpret_cast<intptr_t>(worker.shared);
  if (offset >= -static_cast<intptr_t>(kSharedMargin) &&
      offset <
          static_cast<intptr_t>(worker.launch.options.shared_bytes) + static_cast<intptr_t>(kSharedMargin))
    return offset < 0 ? fmt::format("shared-{:#x}", -offset) : fmt::format("shared+{:#x}", offset);
  const EmulatorNames& names = worker.launch.names;
  std::string name = names.tensor ? names.tensor(reinterpret_cast<uintptr_t>(p)) : std::string();
  return name.empty() ? fmt::format("{}", p) : name;
}

std::string describe_waits(const Worker& worker) {
  std::string text = worker.halted ? fmt::format("\n  worker {} stands still", worker.id) : std::string();
  const std::vector<Fiber>& fibers = worker.fibers;
  for (size_t first = 0; first < fibers.size();) {
    const std::string wait = describe_wait(worker, fibers[first].wait);
    size_t end = first + 1;
    while (end < fibers.size() && describe_wait(worker, fibers[end].wait) == wait) ++end;
    if (fibers[first].wait.kind != Wait::Kind::kDone) {
      const Warp& warp = worker.warps[fibers[first].thread / kLanes];
      text += fmt::format("\n  worker {} threads {}-{}{}: {}", worker.id, first, end - 1,
                          describe_task(worker.launch.names, warp.grid, warp.task), wait);
    }
    first = end;
  }
  return text;
}

}  // namespace mkrt::emulator
