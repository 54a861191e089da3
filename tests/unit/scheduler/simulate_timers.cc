// These tests check the queues of a simulation.
#include "scheduler/simulate/simulate_timers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

namespace mkc {
namespace {

TEST_CASE("timers fire by their times, and timers of one time by their creation") {
  std::mt19937 random(1);
  TimerQueue queue;
  std::vector<Timer> set;
  double now_ns = 0;
  for (uint64_t number = 0; number < 20'000; ++number) {
    const Timer timer = {now_ns + static_cast<double>(random() % 50), number, Timer::kTile,
                         static_cast<uint32_t>(number % 7)};
    queue.add(timer);
    set.push_back(timer);
    // The number of timers goes up and down.
    for (uint32_t fire = random() % (number / 4000 % 2 == 0 ? 2 : 4); fire > 0 && !set.empty(); --fire) {
      const auto expected = std::min_element(set.begin(), set.end());
      REQUIRE(uint64_t{queue.first().number} == uint64_t{expected->number});
      REQUIRE(uint64_t{queue.first().worker} == uint64_t{expected->worker});
      now_ns = expected->at_ns;
      set.erase(expected);
      queue.remove_first();
    }
    REQUIRE(queue.empty() == set.empty());
  }
}

}  // namespace
}  // namespace mkc
