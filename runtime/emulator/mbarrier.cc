#include "runtime/emulator/mbarrier.h"

#include <fmt/format.h>

#include "runtime/emulator/launch.h"
#include "runtime/emulator/primitives.h"

namespace mkrt::emulator {
namespace {

constexpr uint64_t kTag = 0x6d62617272696572;  // plus the index: word of an intact mbarrier

void complete_phase_if_due(Worker& worker, Mbarrier& bar) {
  if (bar.pending != 0 || bar.missing_bytes != 0) return;
  ++bar.phase;
  ++worker.progress;
  bar.pending = bar.arrivals;
  bar.completed = std::move(bar.arriving);
  bar.arriving = {};
  for (Fiber* fiber : bar.waiters) wake(*fiber);
  bar.waiters.clear();
}

uint32_t* slot_of(Worker& worker, const uint64_t* word) {
  const auto offset = reinterpret_cast<uintptr_t>(word) - reinterpret_cast<uintptr_t>(worker.shared);
  const size_t slot = offset / sizeof(uint64_t);
  if (offset % sizeof(uint64_t) != 0 || slot >= worker.mbarriers.by_word.size()) return nullptr;
  return &worker.mbarriers.by_word[slot];
}

// Returns the mbarrier. The use is ordered after the initialisation.
Mbarrier& use(Fiber& fiber, const uint64_t* word) {
  Mbarrier& bar = find_mbarrier(*fiber.worker, word);
  if (Race* race = fiber.worker->launch.race.get())
    race->access(fiber, word, sizeof *word, kSiteBarrier, Access::kAtomicRead);
  return bar;
}

void check_parity(const char* name, uint32_t parity) {
  if (parity > 1) fail([&] { return fmt::format("{} for parity {}: must be 0 or 1", name, parity); });
}

void release(Fiber& fiber, Mbarrier& bar) {
  if (Race* race = fiber.worker->launch.race.get()) race->release(fiber.agent, bar.arriving);
}

}  // namespace

Mbarrier& find_mbarrier(Worker& worker, const uint64_t* word) {
  const uint32_t* slot = slot_of(worker, word);
  if (slot == nullptr || *slot == 0)
    fail([&] { return fmt::format("no mbarrier was initialised at {}", describe_address(worker, word)); });
  Mbarrier& bar = worker.mbarriers.all[*slot - 1];
  if (*word != kTag + bar.index)
    fail([&] { return fmt::format("the mbarrier at {} was overwritten", describe_address(worker, word)); });
  return bar;
}

void arrive(Worker& worker, Mbarrier& bar) {
  if (bar.pending == 0)
    fail([&] {
      return fmt::format("the mbarrier at {} has had all {} arrivals of its phase already",
                         describe_address(worker, bar.word), bar.arrivals);
    });
  --bar.pending;
  complete_phase_if_due(worker, bar);
}

void complete_bytes(Worker& worker, Mbarrier& bar, uint32_t bytes) {
  bar.missing_bytes -= bytes;
  if (bar.missing_bytes < -kMaxBytes) {
    return fail_worker(
        worker, fmt::format("worker {}: copies brought {} bytes more than the mbarrier at {} "
                            "expects, the most that it counts is {}",
                            worker.id, -bar.missing_bytes, describe_address(worker, bar.word), kMaxBytes));
  }
  complete_phase_if_due(worker, bar);
}

}  // namespace mkrt::emulator

using namespace mkrt::emulator;

extern "C" {

void mk_mbar_init(uint64_t* word, uint32_t arrivals) noexcept {
  Fiber& fiber = self();
  Worker& worker = *fiber.worker;
  uint32_t* slot = slot_of(worker, word);
  if (slot == nullptr)
    fail([&] {
      return fmt::format("mk_mbar_init at {}: not 8 aligned bytes of shared memory",
                         describe_address(worker, word));
    });
  if (arrivals == 0 || arrivals > kMaxArrivals)
    fail([&] {
      return fmt::format("mk_mbar_init with {} arrivals: must be 1 to {}", arrivals, kMaxArrivals);
    });
  if (*slot != 0)
    fail([&] {
      return fmt::format("mk_mbar_init at {}: initialised already", describe_address(worker, word));
    });
  if (worker.launch.race)
    worker.launch.race->access(fiber, word, sizeof *word, mkrt::kSiteBarrier, Access::kWrite);
  Mbarrier bar;
  bar.word = word;
  bar.index = static_cast<uint32_t>(worker.mbarriers.all.size());
  bar.arrivals = bar.pending = arrivals;
  bar.initialiser = fiber.thread;
  *word = kTag + bar.index;
  worker.mbarriers.all.push_back(std::move(bar));
  *slot = static_cast<uint32_t>(worker.mbarriers.all.size());
}

void mk_fence_mbar_init() noexcept {
  const Fiber& fiber = self();
  for (Mbarrier& bar : fiber.worker->mbarriers.all) bar.fenced |= bar.initialiser == fiber.thread;
}

void mk_mbar_arrive(uint64_t* word) noexcept {
  Fiber& fiber = self();
  Mbarrier& bar = use(fiber, word);
  release(fiber, bar);
  arrive(*fiber.worker, bar);
}

void mk_mbar_expect(uint64_t* word, uint32_t bytes) noexcept {
  Fiber& fiber = self();
  Mbarrier& bar = use(fiber, word);
  release(fiber, bar);
  bar.missing_bytes += bytes;
  if (bar.missing_bytes > kMaxBytes)
    fail([&] {
      return fmt::format(
          "mk_mbar_expect of {} bytes: the mbarrier at {} then expects {}, and counts at most {}", bytes,
          describe_address(*fiber.worker, word), bar.missing_bytes, kMaxBytes);
    });
  arrive(*fiber.worker, bar);
}

bool mk_mbar_test(uint64_t* word, uint32_t parity) noexcept {
  check_parity("mk_mbar_test", parity);
  return (use(self(), word).phase & 1) != parity;
}

bool mk_mbar_try_wait(uint64_t* word, uint32_t parity) noexcept {
  Fiber& fiber = self();
  // The mbarrier is looked up again after the wait, because a newly made mbarrier moves the table.
  const auto passed = [&] { return (use(fiber, word).phase & 1) != parity; };
  check_parity("mk_mbar_try_wait", parity);
  if (!passed()) {
    const bool first_try =
        fiber.wait.kind != Wait::Kind::kMbarrier || fiber.wait.object != word || fiber.wait.number != parity;
    if (fiber.worker->impatient && first_try)
      wake(fiber);
    else
      use(fiber, word).waiters.push_back(&fiber);
    suspend({Wait::Kind::kMbarrier, word, parity});
    if (!passed()) return false;
  }
  Mbarrier& bar = use(fiber, word);
  bar.seen_until = bar.phase;
  if (Race* race = fiber.worker->launch.race.get()) race->acquire(fiber.agent, bar.completed);
  return true;
}
}
