// These tests run work on a crew of threads.
#include "runtime/device/crew.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <xmmintrin.h>

#include <barrier>
#include <chrono>
#include <random>
#include <set>

#include "runtime/device/processor.h"

namespace mkrt {
namespace {

using namespace std::chrono_literals;

cpu_set_t affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  pthread_getaffinity_np(pthread_self(), sizeof set, &set);
  return set;
}

// Returns the processor time of all threads of this process.
std::chrono::microseconds spent() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  return std::chrono::seconds(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         std::chrono::microseconds(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

TEST_CASE("work has the default modes of floating point, and the calling thread keeps its own") {
  constexpr uint32_t kDefault = 0x1f80, kFlushing = 0x9fc0;  // the latter takes subnormal numbers as 0
  _mm_setcsr(kFlushing);
  std::vector<uint32_t> modes(3);
  Crew(3).run([&](uint32_t i) { modes[i] = _mm_getcsr(); });
  const uint32_t after = _mm_getcsr();
  _mm_setcsr(kDefault);
  CHECK(modes == std::vector<uint32_t>(3, kDefault));
  CHECK(after == kFlushing);
}

TEST_CASE("each thread of a crew runs once a run, and run returns when all have") {
  for (uint32_t threads = 1; threads <= 8; ++threads) {
    CAPTURE(threads);
    Crew crew(threads);
    const uint32_t last = 500 + 4000 / threads;
    std::vector<uint32_t> runs(threads), outputs(threads);
    std::vector<std::thread::id> ids(threads);
    std::mt19937 rng(threads);
    bool right = true;
    for (uint32_t run = 1; run <= last; ++run) {
      uint32_t input = run;  // neither inputs nor outputs are atomic
      if (run % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(rng() % 400));
      crew.run([&](uint32_t i) {
        if (run == 1) ids[i] = std::this_thread::get_id();
        runs[i] += ids[i] == std::this_thread::get_id();
        outputs[i] = input + i;
      });
      for (uint32_t i = 0; i < threads; ++i) right = right && runs[i] == run && outputs[i] == run + i;
    }
    CHECK(right);
    CHECK(ids[0] == std::this_thread::get_id());
    CHECK(std::set<std::thread::id>(ids.begin(), ids.end()).size() == threads);
  }
}

TEST_CASE("all threads of a crew work at the same time, even if they are more than processors") {
  for (const uint32_t threads : {2u, 8u}) {
    Crew crew(threads);
    std::barrier<> meet(threads);
    for (int run = 0; run < 20; ++run)
      crew.run([&](uint32_t) {
        meet.arrive_and_wait();
        meet.arrive_and_wait();
      });
  }
}

TEST_CASE("run waits for threads that take long") {
  Crew crew(3);
  for (uint32_t slow = 0; slow < 3; ++slow) {
    uint32_t ended[3] = {};
    crew.run([&](uint32_t i) {
      if (i == slow) std::this_thread::sleep_for(20ms);
      ended[i] = 1;
    });
    CHECK(ended[0] + ended[1] + ended[2] == 3);
  }
}

TEST_CASE("a crew ends at any time, with and without work before") {
  for (int i = 0; i < 300; ++i) {
    uint32_t runs[4] = {};
    {
      Crew crew(1 + i % 4);
      for (int run = 0; run < i % 3; ++run) crew.run([&](uint32_t thread) { ++runs[thread]; });
      if (i % 50 == 0) std::this_thread::sleep_for(2ms);
    }
    for (int thread = 0; thread < 4; ++thread)
      CHECK(runs[thread] == static_cast<uint32_t>(thread <= i % 4 ? i % 3 : 0));
  }
}

TEST_CASE("an idle crew uses no processor time, and works again") {
  Crew crew(8);
  for (int again = 0; again < 2; ++again) {
    std::atomic<uint32_t> calls{0};
    crew.run([&](uint32_t) { ++calls; });
    CHECK(calls == 8);
    std::this_thread::sleep_for(50ms);  // threads poll before they sleep
    const auto before = spent();
    std::this_thread::sleep_for(200ms);
    CHECK(spent() - before < 20ms);
  }
}

TEST_CASE("threads have processors of their own if there are enough, the calling one only while it works") {
  const auto usable = static_cast<uint32_t>(usable_processors().size());
  const cpu_set_t before = affinity();
  for (const uint32_t threads : {1u, 2u, usable, usable + 1}) {
    CAPTURE(threads);
    Crew crew(threads);
    std::vector<cpu_set_t> bound(threads);
    crew.run([&](uint32_t i) { bound[i] = affinity(); });
    const cpu_set_t after = affinity();
    CHECK(CPU_EQUAL(&after, &before));
    std::set<int> processors;
    for (const cpu_set_t& set : bound)
      for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_COUNT(&set) == 1 && CPU_ISSET(cpu, &set)) processors.insert(cpu);
    const bool binds = threads > 1 && threads <= usable;
    if (binds) CHECK(processors.size() == threads);
    if (!binds)
      for (const cpu_set_t& set : bound) CHECK(CPU_EQUAL(&set, &before));
  }
}

}  // namespace
}  // namespace mkrt
