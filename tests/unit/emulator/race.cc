#include <string_view>

#include "tests/unit/emulator/fixtures.h"

using namespace emulator_tests;
using mkrt::RaceKind;

namespace {

constexpr uint32_t kValues = 64;
constexpr uint32_t kStages = 2, kRounds = 5;

// Pipeline has a producer and a consumer. Worker 0 writes values and notifies. Worker 1 waits and brings the
// values into a ring by 16-byte copies, and weights beside them by bulk copies. Its first warp consumes both
// and writes over the weights. Each flag leaves out one synchronisation edge, or does something wrong.
struct Pipeline {
  alignas(16) float values[kRounds][kValues];
  alignas(16) float weights[kValues];
  float sum[32];
  alignas(64) uint32_t done;

  bool no_wait = false, relaxed_wait = false, no_barrier = false, no_proxy_fence = false;
  bool early_fence = false, early_release = false, no_empty_wait = false, no_full_wait = false;
  bool no_init_barrier = false, no_warp_sync = false, wrong_count = false;
  bool no_release_fence = false, early_release_fence = false, values_by_bulk_copy = false;
};

enum Site : uint32_t { kWriteValue = 1, kReadStage, kWriteStage, kWriteSum };

void write_values(Pipeline& p) {
  mk_task_begin(1, 4);
  if (p.early_release_fence && mk_thread() == 0) mk_fence_release();
  for (auto& row : p.values) write(&row[mk_thread()], static_cast<float>(mk_thread()), kWriteValue);
  if (!p.no_barrier) mk_barrier(1, 64);
  if (mk_thread() != 0) return;
  if (!p.no_release_fence && !p.early_release_fence) mk_fence_release();
  mk_red_relaxed(&p.done, 1);
}

struct Stages {
  uint64_t full[kStages], empty[kStages];
  alignas(128) float values[kStages][kValues];
  alignas(128) float weights[kStages][kValues];
};

// Brings the values of a round by 16-byte copies, or wrongly by a bulk copy.
void load_values(Pipeline& p, Stages& stages, uint32_t round) {
  const uint32_t stage = round % kStages;
  constexpr uint32_t kBytes = sizeof p.values[0];
  if (p.values_by_bulk_copy) {
    mk_fence_proxy_async();
    mk_mbar_expect(&stages.full[stage], 2 * kBytes);
    return mk_bulk_load(stages.values[stage], p.values[round], kBytes, &stages.full[stage], 0);
  }
  for (uint32_t i = 0; i < kValues; i += 4) mk_async_load16(&stages.values[stage][i], &p.values[round][i]);
  mk_async_arrive(&stages.full[stage]);
  mk_mbar_expect(&stages.full[stage], kBytes);
}

void load(Pipeline& p, Stages& stages, const mkrt::MkStep* step) {
  if (!p.no_wait) wait_for(&p.done, p.wrong_count ? 0 : 1, step, !p.relaxed_wait);
  for (uint32_t round = 0; round < kRounds; ++round) {
    const uint32_t stage = round % kStages;
    if (!p.no_empty_wait) wait_phase(&stages.empty[stage], (round / kStages & 1) ^ 1, step);
    load_values(p, stages, round);
    mk_bulk_load(stages.weights[stage], p.weights, sizeof p.weights, &stages.full[stage], 0);
  }
}

void consume(Pipeline& p, Stages& stages, const mkrt::MkStep* step) {
  mk_task_begin(2, 0);
  float sum = 0;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const uint32_t stage = round % kStages;
    if (!p.no_full_wait) wait_phase(&stages.full[stage], round / kStages & 1, step);
    if (p.early_release && mk_thread() == 0) mk_mbar_arrive(&stages.empty[stage]);
    if (p.early_fence) mk_fence_proxy_async();
    for (uint32_t i = mk_thread(); i < kValues; i += 32) {
      sum += read(&stages.values[stage][i], kReadStage) * read(&stages.weights[stage][i], kReadStage);
      write(&stages.weights[stage][i], 0.0f, kWriteStage);
    }
    if (!p.no_proxy_fence && !p.early_fence) mk_fence_proxy_async();
    if (!p.no_warp_sync) mk_warp_sync();
    if (!p.early_release && mk_thread() == 0) mk_mbar_arrive(&stages.empty[stage]);
  }
  write(&p.sum[mk_thread()], sum, kWriteSum);
}

void pipeline(const mkrt::MkSession* session, const mkrt::MkStep* step) {
  auto& p = arguments_of<Pipeline>(session);
  if (mk_worker() == 0) return write_values(p);
  auto& stages = *reinterpret_cast<Stages*>(mk_shared());
  if (mk_thread() == 0) {
    for (uint64_t& bar : stages.full) mk_mbar_init(&bar, 1);
    for (uint64_t& bar : stages.empty) mk_mbar_init(&bar, 1);
    mk_fence_mbar_init();
  }
  if (!p.no_init_barrier) mk_barrier(0, 64);
  if (mk_thread() < 32)
    consume(p, stages, step);
  else if (mk_thread() == 32)
    load(p, stages, step);
}

Run run_pipeline(Pipeline p, uint64_t seed = 0) {
  auto options = options_for(2, 64);
  options.race = true;
  options.seed = seed;
  mkrt::EmulatorNames names;
  names.grid = [](uint32_t grid) { return grid == 1 ? "%producer" : "%consumer"; };
  names.site = [](uint32_t site) { return "pipeline.cc:" + std::to_string(site); };
  names.tensor = [](uint64_t) { return "%values"; };
  return launch(pipeline, p, options, 1'000'000, &names);
}

bool found(const Run& run, RaceKind kind) {
  for (const auto& race : run.races)
    if (race.kind == kind) return true;
  return false;
}

}  // namespace

TEST_CASE("a pipeline with all its edges has no race, for any seed") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Run run = run_pipeline({}, seed);
    REQUIRE(run.error() == "");
    for (const auto& race : run.races) MESSAGE(race.message);
    CHECK(run.races.empty());
  }
}

TEST_CASE("each edge left out of the pipeline is a race, whatever the seed") {
  struct Mutant {
    const char* name;
    bool Pipeline::* flag;
    RaceKind kind;
  };
  const Mutant mutants[] = {
      {"wait", &Pipeline::no_wait, RaceKind::kReadAfterWrite},
      {"acquire", &Pipeline::relaxed_wait, RaceKind::kReadAfterWrite},
      {"barrier before the release", &Pipeline::no_barrier, RaceKind::kReadAfterWrite},
      {"fence of the release", &Pipeline::no_release_fence, RaceKind::kReadAfterWrite},
      {"that fence after the writes", &Pipeline::early_release_fence, RaceKind::kReadAfterWrite},
      {"proxy fence", &Pipeline::no_proxy_fence, RaceKind::kProxy},
      {"proxy fence behind the writes", &Pipeline::early_fence, RaceKind::kProxy},
      {"proxy fence of global memory", &Pipeline::values_by_bulk_copy, RaceKind::kProxy},
      {"release after the reads", &Pipeline::early_release, RaceKind::kWriteAfterRead},
      {"warp sync before the release", &Pipeline::no_warp_sync, RaceKind::kWriteAfterRead},
      {"wait for the empty stage", &Pipeline::no_empty_wait, RaceKind::kWriteAfterRead},
      {"barrier after the initialisation", &Pipeline::no_init_barrier, RaceKind::kReadAfterWrite},
      {"wait for the full stage", &Pipeline::no_full_wait, RaceKind::kReadAfterWrite},
  };
  for (const Mutant& mutant : mutants) {
    CAPTURE(std::string_view(mutant.name));
    for (uint64_t seed : {0, 1, 2, 3}) {
      CAPTURE(seed);
      Pipeline p{};
      p.*mutant.flag = true;
      const Run run = run_pipeline(p, seed);
      // The emulator may also end a launch with a misused mbarrier, or with copies that nobody awaited. The
      // mutant without the empty wait arrives too often. The mutant without the barrier after the
      // initialisation may use missing mbarriers.
      if (!run.ok()) {
        CAPTURE(run.error());
        const bool caught = run.error_has("has had all 1 arrivals of its phase already") ||
                            run.error_has("no mbarrier was initialised") ||
                            run.error_has("nobody waited for all copies");
        CHECK(caught);
        continue;
      }
      // The two accesses may also come in the other order. The later one then finds the race.
      const bool reversed = mutant.kind != RaceKind::kProxy &&
                            (found(run, RaceKind::kWriteAfterRead) || found(run, RaceKind::kReadAfterWrite));
      CHECK((found(run, mutant.kind) || reversed));
    }
  }
}

TEST_CASE("a wait for too small a count is a race in every schedule in which it matters") {
  uint32_t caught = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Pipeline p{};
    p.wrong_count = true;
    const Run run = run_pipeline(p, seed);
    REQUIRE(run.error() == "");
    caught += !run.races.empty();
  }
  CHECK(caught > 0);
}

TEST_CASE("a race report names both tasks, both lines and the address in shared memory") {
  Pipeline p{};
  p.no_proxy_fence = true;
  const Run run = run_pipeline(p);
  REQUIRE(run.races.size() == 1);
  CHECK(run.races[0].message ==
        "no proxy fence between a write and an asynchronous access of shared+0x280: worker 1, asynchronous "
        "copy; earlier worker 1 thread 0, task %consumer[0], pipeline.cc:3");
}

// No fence.proxy.async of shared memory shows the async proxy a generic write to global memory.
TEST_CASE("a bulk copy of what threads wrote to global memory in this launch is reported with its tensor") {
  Pipeline p{};
  p.values_by_bulk_copy = true;
  const Run run = run_pipeline(p);
  REQUIRE(run.races.size() == 1);
  CHECK(run.races[0].message ==
        "no proxy fence between a write and an asynchronous access of %values: worker 1, asynchronous copy; "
        "earlier "
        "worker 0 "
        "thread 0, task %producer[4], pipeline.cc:1");
  CHECK(run.races[0].earlier.task == 4);
  CHECK(run.races[0].now.thread == mkrt::RaceParty::kCopyThread);
}

namespace {

struct Cells {
  uint32_t words[64];
  uint32_t flag;
  uint32_t how;
};

// Neighbours exchange words. `how` is 0 for a barrier, 1 for a warp sync, 2 for a shuffle, 3 for nothing.
void neighbours(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& cells = arguments_of<Cells>(session);
  const uint32_t me = mk_thread();
  write(&cells.words[me], me, 1);
  if (cells.how == 0) mk_barrier(0, 32);
  if (cells.how == 1) mk_warp_sync();
  if (cells.how == 2) mk_shuffle_xor(0.0f, 1);
  read(&cells.words[me ^ 1], 2);
}

void atomics(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& cells = arguments_of<Cells>(session);
  if (cells.how == 0 || mk_thread() != 5)
    mk_red_relaxed(&cells.flag, 1);
  else
    write(&cells.flag, 0u, 7);
  mk_load_relaxed(&cells.flag);
}

// Two threads read a word. Only the second reader is in the warp whose sync precedes the write.
void two_readers(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& cells = arguments_of<Cells>(session);
  if (mk_thread() == 0 || mk_thread() == 32) read(&cells.words[0], 1);
  if (mk_thread() >= 32) mk_warp_sync();
  if (mk_thread() == 33) write(&cells.words[0], 1u, 2);
}

// Three threads access two words: one writes the second word, one the first, and one reads the second.
void beside(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& cells = arguments_of<Cells>(session);
  if (mk_thread() == 0) write(&cells.words[1], 1u, 1);
  if (mk_thread() == 1) write(&cells.words[0], 1u, 2);
  if (mk_thread() == 2) read(&cells.words[1], 3);
}

void past_the_end(const mkrt::MkSession*, const mkrt::MkStep*) {
  if (mk_thread() == 0) mk_race_read(mk_shared() + 16384 - 8, 16, 9);
}

void many_sites(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& cells = arguments_of<Cells>(session);
  for (uint32_t site = 0; site < 40; ++site) write(&cells.words[site], mk_thread(), 100 + site);
}

// Thread 0 writes before or behind its release. Thread 1 reads after its acquire.
enum class By : uint32_t { kFence, kAdd, kStore, kBarrier, kWarpSync };
struct Late {
  alignas(64) uint32_t flag;
  alignas(64) uint32_t value;
  By by;
  bool behind;
};

void late(const mkrt::MkSession* session, const mkrt::MkStep* step) {
  auto& l = arguments_of<Late>(session);
  const bool writes = mk_thread() == 0;
  if (writes && !l.behind) write(&l.value, 1u, 1);
  if (l.by == By::kBarrier) mk_barrier(0, 32);
  if (l.by == By::kWarpSync) mk_warp_sync();
  const bool by_flag = l.by == By::kFence || l.by == By::kAdd || l.by == By::kStore;
  if (writes && l.by == By::kFence) mk_fence_release();
  if (writes && l.by == By::kAdd) mk_add_acq_rel(&l.flag, 1);
  if (writes && l.by == By::kStore) mk_store_release(&l.flag, 1);
  if (writes && l.behind) write(&l.value, 1u, 2);
  if (writes && l.by == By::kFence) mk_red_relaxed(&l.flag, 1);
  if (mk_thread() != 1) return;
  if (by_flag) wait_for(&l.flag, 1, step);
  read(&l.value, 3);
}

// Thread 0 and thread 32 copy 16 bytes each, and thread 1 reads both. Bit i of `announced` says whether copy
// i arrives on the mbarrier that thread 1 awaits.
struct Copies {
  alignas(16) float source[8];
  uint32_t announced;
};

void two_copies(const mkrt::MkSession* session, const mkrt::MkStep* step) {
  auto& c = arguments_of<Copies>(session);
  auto* bar = reinterpret_cast<uint64_t*>(mk_shared());
  auto* data = reinterpret_cast<float*>(mk_shared() + 1024);
  const uint32_t warp = mk_thread() / 32;
  if (mk_thread() == 0) mk_mbar_init(bar, 2);
  mk_barrier(0, 64);
  if (mk_thread() % 32 == 0) {
    mk_async_load16(data + warp * 4, c.source + warp * 4);
    if ((c.announced >> warp & 1) != 0) mk_async_arrive(bar);
    mk_mbar_arrive(bar);
  }
  if (mk_thread() != 1) return;
  wait_phase(bar, 0, step);
  read(&data[0], 1);
  read(&data[4], 2);
}

Run run_cells(mkrt::KernelEntry kernel, uint32_t how) {
  Cells cells{};
  cells.how = how;
  auto options = options_for(1, 32);
  options.race = true;
  return launch(kernel, cells, options);
}

}  // namespace

TEST_CASE("barriers and warp syncs order memory, shuffles do not") {
  CHECK(run_cells(neighbours, 0).races.empty());
  CHECK(run_cells(neighbours, 1).races.empty());
  CHECK(run_cells(neighbours, 2).races.size() == 1);
  CHECK(!run_cells(neighbours, 3).races.empty());
}

TEST_CASE("a write after the second of two reads races with the first") {
  Cells cells{};
  auto options = options_for(1, 64);
  options.race = true;
  const Run run = launch(two_readers, cells, options);
  REQUIRE(run.races.size() == 1);
  CHECK(run.races[0].kind == RaceKind::kWriteAfterRead);
  CHECK(run.races[0].earlier.thread == 0);
}

TEST_CASE("a copy that does not arrive is unordered, although one of the same lane of another warp arrives") {
  const auto races = [](uint32_t announced) {
    Copies c{};
    c.announced = announced;
    auto options = options_for(1, 64);
    options.race = true;
    return launch(two_copies, c, options).races;
  };
  CHECK(races(3).empty());
  for (const uint32_t one : {0u, 1u}) {
    const auto found = races(1u << one);
    REQUIRE(found.size() == 1);
    CHECK(found[0].kind == RaceKind::kReadAfterWrite);
    CHECK(found[0].now.site == (one == 0 ? 2 : 1));
  }
}

TEST_CASE("what a thread does behind a release is not ordered by it") {
  for (const By by : {By::kFence, By::kAdd, By::kStore, By::kBarrier, By::kWarpSync})
    for (const bool behind : {false, true}) {
      CAPTURE(static_cast<uint32_t>(by));
      CAPTURE(behind);
      Late l{};
      l.by = by;
      l.behind = behind;
      auto options = options_for(1, 32);
      options.race = true;
      CHECK(launch(late, l, options).races.size() == (behind ? 1 : 0));
    }
}

TEST_CASE("a write leaves what is known of the word behind it") {
  const Run run = run_cells(beside, 0);
  REQUIRE(run.races.size() == 1);
  CHECK(run.races[0].kind == RaceKind::kReadAfterWrite);
  CHECK(run.races[0].earlier.thread == 0);
}

TEST_CASE("atomic accesses race with plain ones, not with each other") {
  CHECK(run_cells(atomics, 0).races.empty());
  CHECK(!run_cells(atomics, 1).races.empty());
}

TEST_CASE("accesses past the end of shared memory are reported") {
  const Run run = run_cells(past_the_end, 0);
  REQUIRE(run.races.size() == 1);
  CHECK(run.races[0].message == "access outside shared memory of shared+0x3ff8: worker 0 thread 0, site 9");
}

TEST_CASE("races are reported once per pair of sites and at most as often as asked for") {
  CHECK(run_cells(many_sites, 0).races.size() == 16);
}
