#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "runtime/emulator/fiber.h"
#include "tests/unit/emulator/fixtures.h"

using namespace emulator_tests;

namespace {

struct Sums {
  uint32_t value[64];
  uint32_t sum[64];
};

void exchange(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& sums = arguments_of<Sums>(session);
  const uint32_t me = mk_thread();
  for (uint32_t round = 0; round < 3; ++round) {
    sums.value[me] = me * (round + 1);
    mk_barrier(1, 64);
    uint32_t sum = 0;
    for (uint32_t v : sums.value) sum += v;
    sums.sum[me] = sum;
    mk_barrier(2, 64);
  }
}

void mismatched(const mkrt::MkSession*, const mkrt::MkStep*) {
  mk_barrier(3, mk_thread() < 32 ? 64 : 32);
}

void one_warp_missing(const mkrt::MkSession*, const mkrt::MkStep*) {
  mk_task_begin(5, 17);
  if (mk_thread() < 32) mk_barrier(0, 64);
}

void leave(const mkrt::MkSession*, const mkrt::MkStep*) {}

void odd_count(const mkrt::MkSession*, const mkrt::MkStep*) {
  mk_barrier(0, 33);
}

void half_warps(const mkrt::MkSession*, const mkrt::MkStep*) {
  if (mk_thread() % 32 < 16) mk_barrier(1, 64);
}

void bad_id(const mkrt::MkSession*, const mkrt::MkStep*) {
  mk_barrier(16, 64);
}

void poisoned(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& sums = arguments_of<Sums>(session);
  const auto* shared = reinterpret_cast<const unsigned char*>(mk_shared());
  sums.value[mk_thread()] = shared[mk_thread() * 256];
  sums.sum[mk_thread()] = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(shared) % 1024);
}

}  // namespace

TEST_CASE("threads see each other's writes after a named barrier, for any seed") {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Sums sums{};
    auto options = options_for(1, 64);
    options.seed = seed;
    const Run run = launch(exchange, sums, options);
    REQUIRE(run.error() == "");
    CHECK(run.stats.value().barriers == 6);
    for (uint32_t sum : sums.sum) CHECK(sum == 3 * 63 * 64 / 2);
  }
}

TEST_CASE("one barrier with two thread counts is an error") {
  Sums sums{};
  CHECK(launch(mismatched, sums, options_for(1, 64)).error() ==
        "worker 0 thread 32: mk_barrier 3 of 32 threads, but thread 0 came to it with 64");
}

TEST_CASE("a barrier that a warp misses ends in an error that names who waits and its task") {
  Sums sums{};
  mkrt::EmulatorNames names;
  names.grid = [](uint32_t grid) { return "%grid" + std::to_string(grid); };
  const Run run = launch(one_warp_missing, sums, options_for(2, 64), 1000, &names);
  CHECK(run.error() ==
        "deadlock:\n  worker 0 threads 0-31, task %grid5[17]: wait in barrier 0 (32 of 64 threads arrived)"
        "\n  worker 1 threads 0-31, task %grid5[17]: wait in barrier 0 (32 of 64 threads arrived)");
}

TEST_CASE("barrier ids and counts out of range are errors") {
  Sums sums{};
  CHECK(launch(odd_count, sums, options_for(1, 64)).error() ==
        "worker 0 thread 0: mk_barrier 0 of 33 threads: must be a multiple of 32 up to 64");
  CHECK(launch(bad_id, sums, options_for(1, 64)).error() == "worker 0 thread 0: mk_barrier 16 is above 15");
}

TEST_CASE("a barrier that lanes of a warp miss is an error, although as many threads came as it expects") {
  Sums sums{};
  CHECK(launch(half_warps, sums, options_for(1, 128)).error() ==
        "worker 0 thread 111: diverged: mk_barrier 1 of 64 threads: 16 lanes of warp 0 came to it, expected "
        "all 32");
}

TEST_CASE("shared memory starts poisoned and aligned") {
  Sums sums{};
  REQUIRE(launch(poisoned, sums, options_for(1, 64)).ok());
  for (uint32_t byte : sums.value) CHECK(byte == 0xff);
  for (uint32_t misalignment : sums.sum) CHECK(misalignment == 0);
}

TEST_CASE("options that make no sense are errors") {
  Sums sums{};
  CHECK(launch(exchange, sums, options_for(1, 33)).error() ==
        "threads per worker must be a multiple of 32 up to 1024, not 33");
  CHECK(launch(exchange, sums, options_for(0, 64)).error() == "the emulator needs at least 1 worker");
  auto options = options_for(2, 64);
  options.race = true;
  options.os_threads = 2;
  CHECK(launch(exchange, sums, options).error() == "race mode runs on 1 OS thread, not 2");
  options.race = false;
  options.os_threads = 0;
  CHECK(launch(exchange, sums, options).error() == "the emulator needs at least 1 OS thread");
}

#if !__has_feature(address_sanitizer) && \
    !__has_feature(thread_sanitizer)  // sanitizers take most of the address space
TEST_CASE("stacks that do not fit into memory are an error") {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  const rlimit little{pages * static_cast<size_t>(getpagesize()) + (16 << 20), before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_AS, &little) == 0);
  Sums sums{};
  const Run run = launch(exchange, sums, options_for(1, 1024));
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(
      run.error_has("the emulator has stacks for 0 of 1 workers: cannot map 1024 emulator stacks: Cannot "
                    "allocate memory; 1 "
                    "workers of 1024 threads need 2048 maps of memory, vm.max_map_count is "));
}

TEST_CASE("more workers than the system has maps of memory for are an error that says how many fit") {
  uint64_t maps = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> maps;
  if (maps == 0 || maps > 300'000) {
    MESSAGE("SKIP: the system allows a process " << maps << " maps of memory");
    return;
  }
  const auto workers = static_cast<uint32_t>(maps / 2048 + 1);
  Sums sums{};
  const Run run = launch(exchange, sums, options_for(workers, 1024));
  CHECK(run.error_has(" of " + std::to_string(workers) +
                      " workers: cannot guard 1024 emulator stacks: Cannot "
                      "allocate memory; " +
                      std::to_string(workers) + " workers of 1024 threads need "));
  CHECK(run.error_has(" maps of memory, vm.max_map_count is " + std::to_string(maps) +
                      ", and the process has "));
}

TEST_CASE("stacks that a pool keeps of another launch make room for a launch of other workers") {
  uint64_t maps = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> maps;
  if (maps == 0 || maps > 300'000) {
    MESSAGE("SKIP: the system allows a process " << maps << " maps of memory");
    return;
  }
  const auto workers = static_cast<uint32_t>(maps * 2 / 3 / 768);
  mkrt::emulator::StackPool pool;
  for (const uint32_t threads : {384, 352}) {
    Sums sums{};
    auto options = options_for(workers, threads);
    options.stacks = &pool;
    CHECK(launch(leave, sums, options).error() == "");
  }
}
#endif
