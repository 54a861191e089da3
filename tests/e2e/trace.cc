// These tests compare the stamps of a traced kernel on the emulator with the schedule that it runs.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "scheduler/place/step.h"
#include "tests/e2e/pipeline.h"

namespace mkc {
namespace {

using mkrt::MkStamp;

mkrt::Trace traced(const mkrt::Session& session) {
  const mkrt::Result<mkrt::Trace> trace = session.read_trace();
  REQUIRE_MESSAGE(trace.ok(), trace.error().message);
  return trace.value();
}

// Runs a launch of requests with these rows. Each request has two pages of its own and samples `limit`
// tokens.
mkrt::StepResult run(mkrt::Session& session, const std::vector<int32_t>& rows, uint32_t limit) {
  std::vector<int32_t> tokens, row_begin{0}, page_begin{0}, page_index;
  for (const int32_t count : rows) {
    const std::vector<int32_t> prompt = test::prompt_of(static_cast<size_t>(count), session.manifest().vocab);
    tokens.insert(tokens.end(), prompt.begin(), prompt.end());
    row_begin.push_back(row_begin.back() + count);
    for (int page = 0; page < 2; ++page) page_index.push_back(static_cast<int32_t>(page_index.size()));
    page_begin.push_back(static_cast<int32_t>(page_index.size()));
  }
  const std::vector<mkrt::Samples> samples(rows.size(), {.limit = limit});
  mkrt::StepResult result;
  const Status status = session.step({tokens, row_begin, rows, {page_begin, page_index}, samples}, result);
  REQUIRE_MESSAGE(status.ok(), status.error().message);
  return result;
}

struct Moments {
  uint64_t begun = 0, ended = 0;  // 0 means not yet
};
using StepMoments = std::map<std::pair<uint32_t, uint32_t>, Moments>;  // moments by grid and task

// Returns the moments of each step of a launch. The test fails if a task is not reached, begun and ended in
// turn, or comes twice.
std::vector<StepMoments> moments_of(const mkrt::Trace& trace) {
  std::vector<StepMoments> steps;
  for (size_t i = 0; i < trace.tracks.size(); i += mkrt::kTracks) {
    StepMoments* step = nullptr;
    MkStamp reached{}, begun{};
    uint64_t last = 0;
    for (const MkStamp& s : trace.tracks[i].stamps) {
      CHECK((s.time > last || &s == trace.tracks[i].stamps.data()));
      last = s.time;
      if (s.kind == mkrt::kStepBegun) {
        steps.resize(std::max<size_t>(steps.size(), s.task + 1));
        step = &steps[s.task];
      }
      if (s.kind == mkrt::kTaskReached) reached = s;
      if (s.kind == mkrt::kTaskBegun) {
        CHECK((s.grid == reached.grid && s.task == reached.task));
        begun = s;
      }
      if (s.kind != mkrt::kTaskEnded) continue;
      REQUIRE(step != nullptr);
      CHECK((s.grid == begun.grid && s.task > begun.task));
      for (uint32_t task = begun.task; task < s.task; ++task)
        CHECK(step->emplace(std::pair(s.grid, task), Moments{begun.time + 1, s.time + 1}).second);
    }
  }
  return steps;
}

// Checks that each task of the schedule has its moments. A task may begin only after all tasks that notify
// its cells have ended.
void check_step(const Schedule& schedule, const std::vector<StepRequest>& requests,
                const StepMoments& found) {
  const Result<Step> expanded = expand_step(schedule, step_values(schedule.program.symbols, requests));
  REQUIRE_MESSAGE(expanded.ok(), expanded.error().message);
  const Step& step = expanded.value();
  REQUIRE(found.size() == step.grid_of.size());
  std::vector<Moments> moments;  // indexed by task
  for (uint32_t task = 0; task < step.grid_of.size(); ++task) {
    const uint32_t grid = step.grid_of[task].index;
    const auto at = found.find({grid, task - step.task_base[grid]});
    REQUIRE(at != found.end());
    moments.push_back(at->second);
  }
  std::vector<uint64_t> complete(step.cell_base.back());
  for (uint32_t task = 0; task < moments.size(); ++task)
    for (uint32_t i = step.notifies.begin[task]; i < step.notifies.begin[task + 1]; ++i)
      complete[step.notifies.cells[i]] = std::max(complete[step.notifies.cells[i]], moments[task].ended);
  for (uint32_t task = 0; task < moments.size(); ++task)
    for (uint32_t i = step.waits.begin[task]; i < step.waits.begin[task + 1]; ++i)
      CHECK_MESSAGE(moments[task].begun > complete[step.waits.cells[i]], task_name(step, task));
}

TEST_CASE("a trace has each task of the schedule once, begun after all that it waits for has ended") {
  struct Case {
    Scheduler scheduler;
    reference::Type type;
    std::vector<SplitRule> splits;
  };
  for (const Case& c :
       {Case{Scheduler::kStatic, reference::Type::kF32, {}},
        Case{Scheduler::kDynamic, reference::Type::kF32, {}},
        Case{Scheduler::kStatic, reference::Type::kBf16, {{"l*.down", 2, {}}, {"l*.gate_up", 4, {}}}}}) {
    const test::Model model(test::random_weights("llama", c.type),
                            {.scheduler = c.scheduler, .splits = c.splits, .mode = Mode::kTraced});
    for (const auto& device : {mkrt::EmulatorDeviceOptions{}, {.seed = 3, .os_threads = 2}}) {
      test::Opened opened = model.open({.cache = {.pages = 6}}, device);
      run(opened.session, {9, 1, 5}, 1);
      const mkrt::Trace trace = traced(opened.session);
      CHECK(trace.tracks.size() == 4 * mkrt::kTracks);
      CHECK(trace.requests == std::vector<mkrt::TracedRequest>{{9, 9}, {1, 1}, {5, 5}});
      const std::vector<StepMoments> steps = moments_of(trace);
      REQUIRE(steps.size() == 1);
      check_step(model.schedule(), {{9, 9}, {1, 1}, {5, 5}}, steps[0]);
    }
  }
}

TEST_CASE("a trace has every step of the last launch, and of no other") {
  const test::Model model(test::random_weights("llama"), {.mode = Mode::kTraced});
  test::Opened opened = model.open({.cache = {.pages = 4}});
  run(opened.session, {3, 7}, 1);
  run(opened.session, {2, 6}, 4);
  const std::vector<StepMoments> steps = moments_of(traced(opened.session));
  REQUIRE(steps.size() == 4);
  check_step(model.schedule(), {{2, 2}, {6, 6}}, steps[0]);
  for (int64_t i = 1; i < 4; ++i) check_step(model.schedule(), {{1, 2 + i}, {1, 6 + i}}, steps[i]);
}

using GridTask = std::pair<uint32_t, uint32_t>;

// Returns the tasks that a track has begun and ended, in order. Waits for the ring are added to `ring`.
std::vector<GridTask> tasks_of(const mkrt::TraceTrack& track, uint64_t& ring) {
  std::vector<GridTask> tasks;
  MkStamp begun{};
  for (const MkStamp& s : track.stamps) {
    if (s.kind == mkrt::kTaskBegun) begun = s;
    if (s.kind != mkrt::kTaskEnded) {
      CHECK(s.ring == 0);
      continue;
    }
    for (uint32_t task = begun.task; task < s.task; ++task) tasks.emplace_back(s.grid, task);
    CHECK(s.ring < s.time - begun.time);
    ring += s.ring;
  }
  return tasks;
}

TEST_CASE("loaders bring what the consumers of their worker multiply with, and both wait for the ring") {
  for (const auto& [family, bulk_copy] : {std::pair("llama", true), std::pair("qwen3_moe", false)}) {
    const test::Model model(test::random_weights(family), {.bulk_copy = bulk_copy, .mode = Mode::kTraced});
    test::Opened opened = model.open({}, {.seed = 7});
    run(opened.session, {5}, 2);
    const mkrt::Trace trace = traced(opened.session);
    uint64_t starved = 0, full = 0;
    for (size_t i = 0; i < trace.tracks.size(); i += mkrt::kTracks) {
      std::vector<GridTask> worked = tasks_of(trace.tracks[i], starved);
      const std::vector<GridTask> brought = tasks_of(trace.tracks[i + 1], full);
      std::erase_if(worked, [&](const GridTask& task) {
        return std::none_of(brought.begin(), brought.end(),
                            [&](const GridTask& other) { return other.first == task.first; });
      });
      CHECK(!brought.empty());
      CHECK(brought == worked);
    }
    CHECK(starved > 0);
    CHECK(full > 0);
  }
}

TEST_CASE("stamps that there is no room for are counted") {
  const test::Model model(test::random_weights("llama"), {.mode = Mode::kTraced});
  test::Opened all = model.open(), few = model.open({.trace_stamps = 10});
  run(all.session, {4}, 1);
  run(few.session, {4}, 1);
  const mkrt::Trace whole = traced(all.session), part = traced(few.session);
  for (size_t i = 0; i < whole.tracks.size(); ++i) {
    const size_t stamps = whole.tracks[i].stamps.size();
    REQUIRE(stamps > 10);
    CHECK(whole.tracks[i].lost == 0);
    CHECK(part.tracks[i].stamps.size() == 10);
    CHECK(part.tracks[i].lost == stamps - 10);
  }
}

TEST_CASE("a traced kernel computes what the kernel does, which has no trace, without races") {
  const test::Model plain(test::random_weights("qwen3_moe"), {.scheduler = Scheduler::kDynamic}),
      stamping(test::random_weights("qwen3_moe"),
               {.race = true, .scheduler = Scheduler::kDynamic, .mode = Mode::kTraced});
  const std::vector<int32_t> prompt = test::prompt_of(3, plain.vocab());
  const test::Model::Output expected = plain.generate(prompt, 2), found = stamping.generate(prompt, 2);
  CHECK(found.tokens == expected.tokens);
  CHECK(found.logits == expected.logits);
  CHECK(plain.open().session.read_trace().error().message ==
        "trace: error: the kernel stamps none: compile it with --trace");
}

}  // namespace
}  // namespace mkc
