#include "runtime/emulator/disturbance.h"

#include "runtime/emulator/counts.h"
#include "tests/unit/emulator/fixtures.h"

using namespace emulator_tests;
using Kind = mkrt::Disturbance::Kind;
using Place = mkrt::Disturbance::Place;
using Until = mkrt::Disturbance::Until;

namespace {

constexpr uint32_t kWorkers = 3;

// Meeting is a kernel's arguments: every worker adds 1 to `arrived` and waits for all.
struct Meeting {
  uint32_t arrived;
  bool timed_out[kWorkers];
};

void meet(const mkrt::MkSession* session, const mkrt::MkStep* step) {
  auto& m = arguments_of<Meeting>(session);
  if (mk_thread() != 0) return;
  add_release(&m.arrived);
  if (!wait_for(&m.arrived, kWorkers, step)) m.timed_out[mk_worker()] = true;
}

Run meet_disturbed(Meeting& m, const mkrt::Disturbance& disturbance, uint64_t seed) {
  auto options = options_for(kWorkers, 32);
  options.disturbance = disturbance;
  options.seed = seed;
  return launch(meet, m, options, 1'000'000'000);
}

mkrt::Disturbance second_notification(Kind kind, Until until = Until::kTurns) {
  mkrt::Disturbance d;
  d.kind = kind;
  d.at = 2;
  d.until = until;
  d.turns = 50;
  return d;
}

bool any_timed_out(const Meeting& m) {
  return m.timed_out[0] || m.timed_out[1] || m.timed_out[2];
}

mkrt::Disturbance of_worker(Kind kind, uint64_t moment) {
  mkrt::Disturbance d;
  d.kind = kind;
  d.place = Place::kMoment;
  d.at = moment;
  d.worker = 1;
  d.turns = 20;
  return d;
}

}  // namespace

TEST_CASE("a notification that is late is waited for, and one that is made twice counts twice") {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    Meeting late{}, twice{};
    CHECK(meet_disturbed(late, second_notification(Kind::kDelay), seed).error() == "");
    CHECK(late.arrived == kWorkers);
    CHECK_FALSE(any_timed_out(late));
    CHECK(meet_disturbed(twice, second_notification(Kind::kDouble), seed).error() == "");
    CHECK(twice.arrived == kWorkers + 1);
  }
}

TEST_CASE("a notification comes past a deadline if it is held back for so long") {
  Meeting m{};
  CHECK(meet_disturbed(m, second_notification(Kind::kDelay, Until::kDeadline), 1).error() == "");
  CHECK(m.arrived == kWorkers);
  CHECK(any_timed_out(m));
}

TEST_CASE("a worker that stands still for a while goes on, and one that stops is a deadlock that names it") {
  for (const uint64_t moment : {0, 3}) {
    Meeting stalled{}, stopped{};
    CHECK(meet_disturbed(stalled, of_worker(Kind::kStall, moment), 1).error() == "");
    CHECK(stalled.arrived == kWorkers);
    CHECK_FALSE(any_timed_out(stalled));
    CHECK(meet_disturbed(stopped, of_worker(Kind::kStop, moment), 1)
              .error_has("deadlock:\n  worker 1 stands still\n  worker 1 threads "));
  }
}

TEST_CASE("disturbances are of workers that there are, and all but losses need one OS thread") {
  Meeting m{};
  auto options = options_for(kWorkers, 32);
  options.disturbance = of_worker(Kind::kStop, 0);
  options.os_threads = 2;
  CHECK(launch(meet, m, options).error() == "a disturbance needs 1 OS thread, not 2");
  options.os_threads = 1;
  options.disturbance.worker = kWorkers;
  CHECK(launch(meet, m, options).error() == "a disturbance of worker 3 of 3");
}

TEST_CASE("the first counter that is wrong is found, logs in any order") {
  const mkrt::StepCounts expected{{3, 0, 2, 1, 4}, {{3, 2}}, {}};
  const auto wrong = [&](std::vector<uint32_t> bank) { return mkrt::find_wrong_count(expected, bank); };
  CHECK_FALSE(wrong({3, 0, 2, 4, 1}).has_value());
  const auto found = wrong({3, 1, 2, 1, 1});
  REQUIRE(found.has_value());
  CHECK(found->counter == 1);
  CHECK(found->found == 1);
  CHECK(found->expected == 0);
  CHECK(wrong({3, 0, 2, 1, 1})->counter == 4);
}

TEST_CASE("a task that was not run once is found, and one that there should not be") {
  mkrt::TaskRuns runs;
  runs.add(0, 0, 2);
  runs.add(1, 0, 1);
  const auto wrong = [&](std::vector<uint32_t> tasks) { return runs.find_wrong(tasks); };
  CHECK_FALSE(wrong({2, 1}).has_value());
  CHECK(wrong({3, 1})->task == 2);
  CHECK(wrong({3, 1})->runs == 0);
  CHECK(wrong({2, 0})->grid == 1);
  runs.add(0, 1, 1);
  CHECK(wrong({2, 1})->runs == 2);
}

TEST_CASE("runs by wild numbers of grids and tasks are not counted") {
  constexpr uint32_t grids = 1 << 16, tasks = 1 << 22;  // the smallest wild numbers
  mkrt::TaskRuns runs;
  runs.add(0, 0, 2);
  runs.add(0, tasks, 1);
  runs.add(0, 0, tasks);
  runs.add(grids, 0, 1);
  std::vector<uint32_t> expected(grids + 1, 0);
  expected[0] = 2;
  CHECK_FALSE(runs.find_wrong(expected).has_value());
}
