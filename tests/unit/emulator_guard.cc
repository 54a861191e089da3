// Kernels that touch memory which is not there.
#include <fmt/format.h>
#include <sys/mman.h>

#include "tests/unit/emulator_fixtures.h"

using namespace emulator_tests;

namespace {

// Sanitizers end the process with a report of their own.
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kGuarded = false;
#else
constexpr bool kGuarded = true;
#endif

constexpr uint32_t kThreads = 64;

struct Words {
  volatile uint32_t* wild;
  uint32_t sum;
};

// The fourth thread of the second worker follows the address, while others wait.
void follows(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& words = arguments_of<Words>(session);
  mk_barrier(1, kThreads);
  if (mk_worker() == 1 && mk_thread() == 3) words.sum += *words.wild;
  mk_barrier(1, kThreads);
}

}  // namespace

TEST_CASE("a wild address ends the launch with its thread and address, and the next launch is right") {
  if (!kGuarded) return;
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  Words words{static_cast<uint32_t*>(page), 0};
  *static_cast<uint32_t*>(page) = 7;
  CHECK(launch(follows, words, options_for(2, kThreads)).error() == "");
  CHECK(words.sum == 7);
  REQUIRE(munmap(page, 4096) == 0);
  for (const uint32_t os_threads : {1u, 2u}) {
    mkrt::EmulatorOptions options = options_for(2, kThreads);
    options.os_threads = os_threads;
    CHECK(launch(follows, words, options).error() ==
          fmt::format("worker 1 thread 3: touches {}, where there is no memory", page));
  }
  uint32_t there = 5;
  words.wild = &there;
  CHECK(launch(follows, words, options_for(2, kThreads)).error() == "");
  CHECK(words.sum == 12);
}
