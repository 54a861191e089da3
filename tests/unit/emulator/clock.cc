// These tests compare clocks, which share parts, with plain vectors.
#include "runtime/emulator/clock.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>

namespace mkrt::emulator {
namespace {

constexpr uint32_t kAgents = 700;  // the last part is not full

using Plain = std::vector<uint32_t>;

void check_equal(const ClockRef& clock, const Plain& plain) {
  bool equal = true;
  for (uint32_t agent = 0; agent < kAgents; ++agent)
    equal &= (clock == nullptr ? 0 : (*clock)[agent]) == plain[agent];
  CHECK(equal);
}

TEST_CASE("joins and epochs change the new clock alone, whatever parts clocks share") {
  std::mt19937 random(5);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  std::vector<ClockRef> clocks(8);
  std::vector<Plain> plain(clocks.size(), Plain(kAgents));
  JoinCache joins;
  for (uint32_t round = 0; round < 3000; ++round) {
    const uint32_t a = below(8), b = below(8), to = below(8);
    if (below(3) == 0) {
      clocks[to] = below(2) == 0 ? join(clocks[a], clocks[b]) : joins.join(clocks[a], clocks[b]);
      Plain joined = plain[a];
      for (uint32_t i = 0; i < kAgents; ++i) joined[i] = std::max(joined[i], plain[b][i]);
      plain[to] = joined;
    } else {
      const AgentEpoch epoch{below(kAgents), below(1000)};
      clocks[to] = with(clocks[a], epoch, kAgents);
      Plain next = plain[a];
      next[epoch.agent] = std::max(next[epoch.agent], epoch.clock);
      plain[to] = next;
    }
    check_equal(clocks[to], plain[to]);
    if (round % 100 == 0)
      for (size_t i = 0; i < clocks.size(); ++i) check_equal(clocks[i], plain[i]);
  }
  std::array<uint32_t, 2> answers{};
  for (uint32_t round = 0; round < 3000; ++round) {
    const uint32_t a = below(8), first = below(kAgents / 32) * 32, clock = below(30);
    const uint32_t agents = random() & random() & random();
    bool all = true;
    for (uint32_t i = 0; i < 32; ++i) all &= (agents >> i & 1) == 0 || plain[a][first + i] >= clock;
    if (clocks[a] != nullptr) CHECK(clocks[a]->knows_all(first, agents, clock) == all);
    ++answers[all];
  }
  CHECK(answers[0] > 100);
  CHECK(answers[1] > 100);
  CHECK(knows(with(nullptr, {3, 7}, kAgents), {3, 7}));
  CHECK_FALSE(knows(with(nullptr, {3, 7}, kAgents), {3, 8}));
  CHECK_FALSE(knows(nullptr, {3, 1}));
}

}  // namespace
}  // namespace mkrt::emulator
