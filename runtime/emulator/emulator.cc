#include "runtime/emulator/emulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "runtime/emulator/launch.h"

namespace mkrt {
namespace {

using emulator::Launch;
using emulator::Worker;

Status check_options(const EmulatorOptions& options) {
  if (options.workers == 0) return Error{"the emulator needs at least 1 worker"};
  if (options.threads_per_worker == 0 || options.threads_per_worker % 32 != 0 ||
      options.threads_per_worker > 1024)
    return Error{"threads per worker must be a multiple of 32 up to 1024, not " +
                 std::to_string(options.threads_per_worker)};
  if (options.os_threads == 0) return Error{"the emulator needs at least 1 OS thread"};
  if (options.race && options.os_threads != 1)
    return Error{"race mode runs on 1 OS thread, not " + std::to_string(options.os_threads)};
  const Disturbance& disturbance = options.disturbance;
  if (disturbance.kind > Disturbance::Kind::kDrop && options.os_threads != 1)
    return Error{"a disturbance needs 1 OS thread, not " + std::to_string(options.os_threads)};
  if (disturbance.worker >= options.workers)
    return Error{"a disturbance of worker " + std::to_string(disturbance.worker) + " of " +
                 std::to_string(options.workers)};
  return {};
}

// Returns the error of a launch whose workers have no stacks. A stack and its guard are two maps of memory,
// of which Linux gives a process vm.max_map_count.
Error no_stacks(const Launch& launch, const Error& reason) {
  const uint64_t maps = 2 * uint64_t{launch.options.threads_per_worker}, workers = launch.options.workers;
  std::string limit = "unknown here";
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  std::ifstream lines("/proc/self/maps");
  const auto now = std::count(std::istreambuf_iterator<char>(lines), {}, '\n');
  return Error{fmt::format("the emulator has stacks for {} of {} workers: {}; {} workers of {} threads need "
                           "{} maps of memory, "
                           "vm.max_map_count is {}, and the process has {} maps now",
                           launch.workers.size(), workers, reason.message, workers,
                           launch.options.threads_per_worker, workers * maps, limit, now),
               reason.kind};
}

Status make_workers(Launch& launch) {
  for (uint32_t id = 0; id < launch.options.workers; ++id) {
    const uint32_t count = launch.options.threads_per_worker;
    emulator::StackPool* pool = launch.options.stacks;
    auto stacks = pool ? pool->take(count) : emulator::Stacks::map(count);
    if (!stacks.ok()) return no_stacks(launch, stacks.error());
    launch.workers.push_back(std::make_unique<Worker>(launch, id, std::move(stacks).value()));
  }
  return {};
}

void run(Launch& launch) {
  const uint32_t wanted = std::min(launch.options.os_threads, launch.options.workers);
  std::promise<uint32_t> decided;
  const std::shared_future<uint32_t> count = decided.get_future().share();
  std::vector<std::jthread> others;
  others.reserve(wanted);
  for (uint32_t i = 1; i < wanted; ++i) {
    try {
      others.emplace_back([&launch, count, i] { emulator::run_workers(launch, i, count.get()); });
    } catch (const std::exception&) {
      break;  // the threads that there are run all workers
    }
  }
  const auto os_threads = static_cast<uint32_t>(others.size() + 1);
  launch.active = os_threads;
  decided.set_value(os_threads);
  emulator::run_workers(launch, 0, os_threads);
}

void leave_stacks(Launch& launch) {
  if (!launch.options.stacks) return;
  for (const auto& worker : launch.workers) launch.options.stacks->put(std::move(worker->stacks));
}

EmulatorStats total_stats(const Launch& launch) {
  EmulatorStats total;
  for (const auto& worker : launch.workers) {
    const EmulatorStats& stats = worker->stats;
    total.switches += stats.switches;
    total.barriers += stats.barriers;
    total.collectives += stats.collectives;
    total.products += stats.products;
    total.copies += stats.copies;
    total.copied_bytes += stats.copied_bytes;
    total.tasks += stats.tasks;
  }
  total.notifications = launch.notifications;
  total.time_jumps = launch.time_jumps;
  return total;
}

}  // namespace

Result<EmulatorStats> emulate(const KernelCall& kernel, const MkSession* session, const MkStep* step,
                              const EmulatorOptions& options, const EmulatorNames* names,
                              std::vector<RaceReport>* races) {
  if (Status valid = check_options(options); !valid.ok()) return valid.error();
  Launch launch;
  launch.kernel = kernel;
  launch.session = session;
  launch.step = step;
  launch.options = options;
  if (names != nullptr) launch.names = *names;
  if (options.race) launch.race = std::make_unique<emulator::Race>(launch, races);
  if (Status made = make_workers(launch); !made.ok()) return made.error();
  const Disturbance& disturbance = options.disturbance;
  if (disturbance.kind != Disturbance::Kind::kNone || disturbance.seen)
    launch.disturber = std::make_unique<emulator::Disturber>(launch);
  run(launch);
  leave_stacks(launch);
  if (launch.disturber) launch.disturber->end_launch();
  if (!launch.failure.empty()) return Error{launch.failure};
  if (options.after_step && (!races || races->empty())) options.after_step();
  if (launch.disturber) launch.disturber->end_step();
  return total_stats(launch);
}

}  // namespace mkrt
