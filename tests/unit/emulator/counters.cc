#include <algorithm>

#include "tests/unit/emulator/fixtures.h"

using namespace emulator_tests;

namespace {

constexpr uint32_t kWorkers = 3;

// Circle holds a token that workers pass around. Each worker appends its number to `value`, as a ternary
// digit.
struct Circle {
  uint32_t turn;
  uint32_t value;
  bool timed_out[kWorkers];
  uint32_t order[64];
  uint32_t next;
};

void circle(const mkrt::MkSession* session, const mkrt::MkStep* step) {
  auto& c = arguments_of<Circle>(session);
  for (uint32_t round = 0; round < 4; ++round) {
    if (mk_thread() == 0) {
      if (!wait_for(&c.turn, round * kWorkers + mk_worker(), step)) c.timed_out[mk_worker()] = true;
      c.value = c.value * 3 + mk_worker();
    }
    mk_barrier(0, 32);
    if (mk_thread() == 0) add_release(&c.turn);
  }
}

void forever(const mkrt::MkSession* session, const mkrt::MkStep* step) {
  auto& c = arguments_of<Circle>(session);
  if (mk_thread() == 0) wait_for(&c.turn, 7, step);
}

// Waits again after each timeout. An mbarrier arrival in between counts as progress.
void wait_again(const mkrt::MkSession* session, const mkrt::MkStep* step) {
  auto& c = arguments_of<Circle>(session);
  if (mk_thread() != 0) return;
  auto* bar = reinterpret_cast<uint64_t*>(mk_shared());
  mk_mbar_init(bar, 1);
  for (;;) {
    mk_mbar_arrive(bar);
    wait_for(&c.turn, 7, step);
  }
}

void spin(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& c = arguments_of<Circle>(session);
  while (mk_thread() == 0 && mk_load_relaxed(&c.turn) == 0) {
  }
}

// Worker 0 spins without mk_pause() until worker 1 has stored.
void spin_for_other(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& c = arguments_of<Circle>(session);
  if (mk_thread() != 0) return;
  if (mk_worker() == 1) mk_store_release(&c.turn, 1);
  while (mk_worker() == 0 && mk_load_acquire(&c.turn) == 0) {
  }
}

// Worker 0 spins by compare-and-swap on what worker 1 stores.
void swap_for_other(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& c = arguments_of<Circle>(session);
  if (mk_thread() != 0) return;
  if (mk_worker() == 1) mk_store_release(&c.turn, 1);
  while (mk_worker() == 0 && mk_cas_relaxed(&c.turn, 1, 2) != 1) {
  }
}

// Worker 1 spins for a while and then notifies. Worker 0 waits for this notification.
void spin_then_notify(const mkrt::MkSession* session, const mkrt::MkStep* step) {
  auto& c = arguments_of<Circle>(session);
  if (mk_thread() != 0) return;
  if (mk_worker() == 0) {
    c.timed_out[0] = !wait_for(&c.turn, 1, step);
    return;
  }
  mk_red_relaxed(&c.next, 1);
  for (uint32_t i = 0; i < 20'000; ++i) mk_load_relaxed(&c.value);
  add_release(&c.turn);
}

void arrival_order(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& c = arguments_of<Circle>(session);
  for (int i = 0; i < 3; ++i) mk_warp_sum(1.0f);
  c.order[mk_add_acq_rel(&c.next, 1)] = mk_worker() * 32 + mk_thread();
}

void claim(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& c = arguments_of<Circle>(session);
  if (mk_cas_relaxed(&c.turn, 0, mk_thread() + 1) == 0) c.value = mk_thread() + 1;
}

}  // namespace

TEST_CASE("messages pass through counters across workers, the same on one and two OS threads") {
  uint32_t want = 0;
  for (uint32_t round = 0; round < 4; ++round)
    for (uint32_t worker = 0; worker < kWorkers; ++worker) want = want * 3 + worker;
  for (uint32_t os_threads : {1u, 2u, 3u}) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      Circle c{};
      auto options = options_for(kWorkers, 32);
      options.os_threads = os_threads;
      options.seed = seed;
      const Run run = launch(circle, c, options, 0);
      REQUIRE(run.error() == "");
      CHECK(c.value == want);
      CHECK(run.stats.value().notifications == 4 * kWorkers);
      CHECK(run.stats.value().time_jumps == 0);
    }
  }
}

TEST_CASE("a dropped notification lets waits run into their deadlines") {
  for (uint32_t os_threads : {1u, 2u}) {
    Circle c{};
    auto options = options_for(kWorkers, 32);
    options.os_threads = os_threads;
    options.disturbance.kind = mkrt::Disturbance::Kind::kDrop;
    options.disturbance.at = 2;  // the first notification of worker 1
    const Run run = launch(circle, c, options, 1'000'000'000);
    REQUIRE(run.error() == "");
    CHECK(run.stats.value().time_jumps > 0);
    CHECK(std::any_of(c.timed_out, c.timed_out + kWorkers, [](bool late) { return late; }));
  }
}

TEST_CASE("a wait without a deadline that nobody can satisfy is a deadlock, not a hang") {
  for (uint32_t os_threads : {1u, 2u}) {
    Circle c{};
    auto options = options_for(2, 32);
    options.os_threads = os_threads;
    const Run run = launch(forever, c, options, 0);
    CHECK(run.error_has("deadlock:\n  worker 0 threads 0-0: wait for the counter at "));
    CHECK(run.error_has("(seen 0, want 7)\n  worker 1 threads 0-0: wait for"));
  }
}

TEST_CASE("a launch that passes deadlines without end is ended") {
  for (uint32_t os_threads : {1u, 2u}) {
    Circle c{};
    auto options = options_for(2, 32);
    options.os_threads = os_threads;
    const Run run = launch(wait_again, c, options);
    CHECK(
        run.error_has("livelock: 20000 deadlines passed:\n  worker 0 threads 0-0: wait for the counter at "));
    CHECK(run.error_has("(seen 0, want 7)\n  worker 1 threads 0-0: wait for"));
  }
}

TEST_CASE("spinning without a pause neither hangs the launch nor starves other workers") {
  Circle c{};
  CHECK(launch(spin, c, options_for(1, 32)).error() == "deadlock:\n  worker 0 threads 0-0: spin");
  c = {};
  CHECK(launch(spin_for_other, c, options_for(2, 32)).error() == "");
  c = {};
  CHECK(launch(swap_for_other, c, options_for(2, 32)).error() == "");
}

TEST_CASE("a wait ends with what it is for, although another worker span until then") {
  Circle c{};
  const Run run = launch(spin_then_notify, c, options_for(2, 32), 1'000'000'000);
  REQUIRE(run.error() == "");
  CHECK_FALSE(c.timed_out[0]);
  CHECK(run.stats.value().time_jumps == 0);
}

TEST_CASE("the order of threads follows the seed alone") {
  const auto order = [](uint64_t seed) {
    Circle c{};
    auto options = options_for(2, 32);
    options.seed = seed;
    REQUIRE(launch(arrival_order, c, options).ok());
    return std::vector<uint32_t>(c.order, c.order + 64);
  };
  for (uint64_t seed : {0, 1, 2}) CHECK(order(seed) == order(seed));
  CHECK(order(1) != order(0));
  CHECK(order(1) != order(2));
}

TEST_CASE("one thread wins a compare-and-swap") {
  Circle c{};
  REQUIRE(launch(claim, c, options_for(1, 64)).ok());
  CHECK(c.turn != 0);
  CHECK(c.value == c.turn);
}
