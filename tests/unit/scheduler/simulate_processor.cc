// These tests simulate steps of a processor.
#include <doctest/doctest.h>

#include "scheduler/place/place.h"
#include "scheduler/simulate/simulate.h"
#include "scheduler/work/processor.h"
#include "tests/unit/scheduler/programs.h"

namespace mkc {
namespace {

using doctest::Approx;
using test::product_sequence;

// Returns a processor of round figures: 10 bytes a ns from memory for one worker, 15 for all. One token takes
// 100 weights a ns, and a group of eight takes 80 multiply-adds a ns. All that is no such work takes next to
// no time.
Machine processor() {
  Machine m;
  m.name = "test";
  m.target = "x86-64-v4";
  m.workers = 2;
  m.shared_bytes = 1 << 24;
  m.ring_stages = 4;
  m.l2_bytes = 1 << 25;
  m.l2_bytes_per_ns = m.worker_l2_bytes_per_ns = 1e9;
  m.stream_bytes_per_ns = 15;
  m.worker_bytes_per_ns = 10;
  m.cold_burst = {{4096, 15}};
  m.load_ns = m.poll_ns = 1;
  m.group_tokens = 8;
  m.group_rows = 4;
  m.product.fill({100, 80});
  m.product_stream.fill({100, 80});
  m.attend.fill({50, 40});
  m.attend_stream.fill({25, 20});
  return m;
}

double step_ns(const TaskProgram& program, const Machine& m, uint32_t workers, std::vector<int64_t> symbols,
               const SimulateOptions& options = {}) {
  const Result<Schedule> schedule = place(program, m, PlaceOptions{workers});
  REQUIRE(schedule.ok());
  const Result<Simulation> s = simulate(schedule.value(), m, std::move(symbols), options);
  REQUIRE_MESSAGE(s.ok(), (s.ok() ? "" : s.error().message));
  return s.value().ns;
}

constexpr int64_t kStrips = 4, kCols = 4096;
constexpr double kWeights = kStrips * 16 * kCols, kRead = 2 * kWeights / 10;  // bf16 by one worker

TEST_CASE("tokens go through weights in full groups and then in halves of one") {
  const LoopRate cached{10, 40}, stream{5, 16};
  const Groups one = groups_of(1, 8, cached, stream), thirteen = groups_of(13, 8, cached, stream);
  CHECK(one.count == 1);
  CHECK(one.first_ns == Approx(1 / 5.0));
  CHECK(one.others_ns == 0);
  CHECK(one.cached_ns == Approx(1 / 10.0));
  CHECK(thirteen.count == 3);  // 8, 4 and 1
  CHECK(thirteen.first_ns == Approx(8 / 16.0));
  CHECK(thirteen.others_ns == Approx(4 / 40.0 + 1 / 10.0));
  CHECK(thirteen.cached_ns == Approx(8 / 40.0 + 4 / 40.0 + 1 / 10.0));
}

TEST_CASE("a part of a group takes a time between those of one token and of a group") {
  const LoopRate cached{10, 40}, stream{5, 16};  // 0.2 ns and 0.5 ns
  CHECK(groups_of(4, 8, cached, stream).first_ns == Approx(0.2 + 0.3 * 3 / 7));
}

TEST_CASE("one token reads at the rate of one worker, and two workers at that of all") {
  const TaskProgram product = product_sequence(1, kStrips, kCols);
  CHECK(step_ns(product, processor(), 1, {1}) == Approx(kRead).epsilon(0.05));
  CHECK(step_ns(product_sequence(1, 2 * kStrips, kCols), processor(), 2, {1}) ==
        Approx(2 * kRead * 10 / 15).epsilon(0.05));
}

TEST_CASE("weights arrive while the first group is multiplied, and not for further groups") {
  const TaskProgram product = product_sequence(1, kStrips, kCols);
  const double group_ns = kWeights * 8 / 80;
  REQUIRE(group_ns < kRead);
  CHECK(step_ns(product, processor(), 1, {8}) == Approx(kRead).epsilon(0.05));
  CHECK(step_ns(product, processor(), 1, {24}) == Approx(kRead + 2 * group_ns).epsilon(0.05));
  Machine slow = processor();
  slow.product_stream.fill({100, 20});
  CHECK(step_ns(product, slow, 1, {8}) == Approx(4 * group_ns).epsilon(0.05));
}

TEST_CASE("each strip is finished for each token") {
  const TaskProgram product = product_sequence(1, kStrips, kCols);
  Machine m = processor();
  const double before = step_ns(product, m, 1, {5});
  m.reduce_ns = 1000;
  CHECK(step_ns(product, m, 1, {5}) == Approx(before + kStrips * 5 * 1000));
}

TEST_CASE("no worker runs ahead of its waits") {
  const TaskProgram products = product_sequence(3, kStrips, kCols);
  Machine m = processor();
  m.notify_ns = 5000;
  CHECK(step_ns(products, m, 2, {1}) == step_ns(products, m, 2, {1}, {.run_ahead = false}));
}

TEST_CASE("a lone query row goes through keys and values of memory at its own rate") {
  const TaskProgram p = test::model_program({.context = 4096});
  Machine m = processor();
  m.worker_bytes_per_ns = m.stream_bytes_per_ns = 1e6;
  m.product.fill({1e9, 1e9});
  m.product_stream.fill({1e9, 1e9});
  m.load_ns = m.poll_ns = 0.01;
  const double short_ns = step_ns(p, m, 1, {1, 1}), long_ns = step_ns(p, m, 1, {1, 4001});
  // Two layers, each with keys and values of two heads and 16 columns.
  CHECK(long_ns - short_ns == Approx(2 * 2 * 2 * 16 * 4000 / 25.0).epsilon(0.01));
}

}  // namespace
}  // namespace mkc
