// These tests check that memory is spoilt where no task may rely on its old content.
#include "runtime/emulator/spoil.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/half.h"
#include "runtime/emulator/workspace.h"
#include "tests/unit/emulator/fixtures.h"

using namespace emulator_tests;

namespace {

constexpr uint32_t kThreads = 256, kWritten = 7;

struct Seen {
  uint32_t before[kThreads], after[kThreads];
};

// Runs two tasks of a segment. The first task writes a word of shared memory for each thread.
template <bool Barrier, bool Spoil>
void two_tasks(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& seen = arguments_of<Seen>(session);
  const uint32_t me = mk_thread();
  uint32_t* words = reinterpret_cast<uint32_t*>(mk_shared());
  seen.before[me] = words[me];
  if (me % 32 == 0) mk_task_begin(0, 0);
  mk_barrier(1, kThreads);
  words[me] = kWritten;
  if (me % 32 == 0) mk_task_end(0, 0, 1);
  if (Barrier) mk_barrier(1, kThreads);
  if (Spoil) mk_spoil(mk_shared(), kThreads * 4);
  if (me % 32 == 0) mk_task_begin(0, 1);
  mk_barrier(1, kThreads);
  seen.after[me] = words[me];
}

// Each warp in turn reads the word, and its first lane then reports the read with mk_spoil_last().
void readers(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& seen = arguments_of<Seen>(session);
  const uint32_t me = mk_thread(), warp = me / 32;
  uint32_t* word = reinterpret_cast<uint32_t*>(mk_shared());
  *word = kWritten;
  mk_barrier(1, kThreads);
  for (uint32_t turn = 0; turn < kThreads / 32; ++turn) {
    if (warp == turn) {
      seen.before[me] = *word;
      mk_warp_sync();
      if (me % 32 == 0) mk_spoil_last(mk_shared(), 4);
    }
    mk_barrier(1, kThreads);
  }
  seen.after[me] = *word;
}

bool all_are(const uint32_t (&words)[kThreads], uint32_t value) {
  return std::all_of(std::begin(words), std::end(words), [&](uint32_t w) { return w == value; });
}

uint32_t spoilt_word() {
  uint32_t word = 0;
  mkrt::spoil(&word, sizeof word);
  return word;
}

TEST_CASE("spoilt memory is NaN in every floating-point type, and no index") {
  uint32_t words[4] = {};
  mkrt::spoil(words, 15);
  CHECK(words[3] == 0x00ff7fff);  // the byte behind the end keeps its value
  CHECK(std::isnan(__builtin_bit_cast(float, words[0])));
  CHECK(std::isnan(mkrt::bf16_to_f32(words[0] & 0xffff)));
  CHECK(std::isnan(mkrt::bf16_to_f32(words[0] >> 16)));
  CHECK(std::isnan(mkrt::f16_to_f32(words[0] & 0xffff)));
  CHECK(std::isnan(mkrt::e4m3_to_f32(words[0] & 0xff)));
  CHECK(std::isnan(mkrt::e4m3_to_f32(words[0] >> 8 & 0xff)));
  CHECK(static_cast<int32_t>(words[0]) > 1 << 30);
}

TEST_CASE("what a task left in shared memory is spoilt behind the barrier that ends it") {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Seen seen{};
    auto options = options_for(1, kThreads);
    options.seed = seed;
    REQUIRE(launch(two_tasks<true, true>, seen, options).error() == "");
    CHECK(all_are(seen.before, spoilt_word()));
    CHECK(all_are(seen.after, spoilt_word()));
    REQUIRE(launch(two_tasks<true, false>, seen, options).error() == "");
    CHECK(all_are(seen.after, kWritten));
  }
}

TEST_CASE("shared memory is left alone where no barrier ends the task before") {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Seen seen{};
    auto options = options_for(1, kThreads);
    options.seed = seed;
    REQUIRE(launch(two_tasks<false, true>, seen, options).error() == "");
    CHECK(all_are(seen.after, kWritten));
  }
}

TEST_CASE("memory that all consumer warps read is spoilt by the last of them") {
  Seen seen{};
  REQUIRE(launch(readers, seen, options_for(1, kThreads)).error() == "");
  CHECK(all_are(seen.before, kWritten));
  CHECK(all_are(seen.after, spoilt_word()));
}

void next_steps(const mkrt::MkSession*, const mkrt::MkStep* step) {
  auto* begun = const_cast<uint32_t*>(&step->begun);
  if (mk_thread() != 0) return;
  mk_store_release(begun, 1);
  mk_store_release(begun, mkrt::kLaunchOver);
}

TEST_CASE("the host is told of a step before it begins, and not of the launch's end") {
  Seen seen{};
  auto options = options_for(1, 32);
  uint32_t steps = 0;
  options.before_step = [&] { ++steps; };
  REQUIRE(launch(next_steps, seen, options).error() == "");
  CHECK(steps == 1);
}

TEST_CASE("a tensor is spoilt once a step, before the first task of all grids that write it") {
  mkrt::StepKernels kernels;
  kernels.tensors = {{0, 8}, {8, 8}, {0, 16}};  // the last tensor takes the memory of the other two
  kernels.written = {{0}, {1}, {2}, {0}};
  mkrt::emulator::Workspace workspace(kernels);
  uint32_t words[4];
  const auto holds = [&](uint32_t first, uint32_t second) {
    return words[0] == first && words[1] == first && words[2] == second && words[3] == second;
  };
  const auto write = [&](uint32_t first, uint32_t second) {
    words[0] = words[1] = first;
    words[2] = words[3] = second;
  };
  const uint32_t spoilt = spoilt_word();
  for (uint32_t step = 0; step < 2; ++step) {
    write(1, 2);
    workspace.begin_step(words, sizeof words);
    CHECK(holds(spoilt, spoilt));
    write(1, 2);
    workspace.begin_task(1);
    CHECK(holds(1, spoilt));
    write(1, 3);
    workspace.begin_task(1);
    CHECK(holds(1, 3));
    workspace.begin_task(3);
    CHECK(holds(spoilt, 3));
    write(4, 3);
    workspace.begin_task(0);
    CHECK(holds(4, 3));
    workspace.begin_task(2);
    CHECK(holds(spoilt, spoilt));
    workspace.begin_task(9);  // grid 9 is unknown
  }
}

}  // namespace
