#include <cmath>

#include "tests/unit/emulator/fixtures.h"

using namespace emulator_tests;

namespace {

constexpr uint32_t kStages = 3;
constexpr uint32_t kRounds = 10;
constexpr uint32_t kStageFloats = 64;
constexpr uint32_t kStageBytes = kStageFloats * sizeof(float);

// Ring is the arguments of a kernel with a ring of stages. Lane 0 of warp 1 fills the stages, and warp 0
// consumes them.
struct Ring {
  alignas(16) float source[kRounds][kStageFloats];
  float sum[32];
  bool small_copies;  // all lanes issue 16-byte copies, instead of one lane a bulk copy
  bool fence = true;
};

struct Stages {
  uint64_t full[kStages], empty[kStages];
  alignas(128) float data[kStages][kStageFloats];
};

void produce(Ring& ring, Stages& stages, const mkrt::MkStep* step) {
  const uint32_t lane = mk_thread() % 32;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const uint32_t stage = round % kStages, parity = round / kStages & 1;
    if (ring.small_copies) {
      wait_phase(&stages.empty[stage], parity ^ 1, step);
      if (lane < kStageBytes / 16)
        mk_async_load16(&stages.data[stage][lane * 4], &ring.source[round][lane * 4]);
      mk_async_arrive(&stages.full[stage]);
      mk_warp_sync();
      if (lane == 0) mk_mbar_arrive(&stages.full[stage]);
    } else if (lane == 0) {
      wait_phase(&stages.empty[stage], parity ^ 1, step);
      mk_mbar_expect(&stages.full[stage], kStageBytes);
      mk_bulk_load(stages.data[stage], ring.source[round], kStageBytes, &stages.full[stage], 0);
    }
  }
}

void consume(Ring& ring, Stages& stages, const mkrt::MkStep* step) {
  float sum = 0;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const uint32_t stage = round % kStages, parity = round / kStages & 1;
    wait_phase(&stages.full[stage], parity, step);
    sum += stages.data[stage][mk_thread()] + stages.data[stage][mk_thread() + 32];
    mk_warp_sync();
    if (mk_thread() == 0) mk_mbar_arrive(&stages.empty[stage]);
  }
  ring.sum[mk_thread()] = sum;
}

void ring_kernel(const mkrt::MkSession* session, const mkrt::MkStep* step) {
  auto& ring = arguments_of<Ring>(session);
  auto& stages = *reinterpret_cast<Stages*>(mk_shared());
  if (mk_thread() == 0) {
    for (uint64_t& bar : stages.full) mk_mbar_init(&bar, 1);
    for (uint64_t& bar : stages.empty) mk_mbar_init(&bar, 1);
    if (ring.fence) mk_fence_mbar_init();
  }
  mk_barrier(0, 64);
  if (mk_thread() < 32)
    consume(ring, stages, step);
  else
    produce(ring, stages, step);
}

// Late records a copy's destination: `early` right after the issue, `late` after the completion.
struct Late {
  alignas(16) float source[8];
  float early, late;
  uint32_t source_skip = 0, destination_skip = 0, bytes = 32;
};

void late_kernel(const mkrt::MkSession* session, const mkrt::MkStep* step) {
  auto& late = arguments_of<Late>(session);
  if (mk_thread() != 0) return;
  auto* bar = reinterpret_cast<uint64_t*>(mk_shared());
  auto* data = reinterpret_cast<float*>(mk_shared() + 1024);
  mk_mbar_init(bar, 1);
  mk_fence_mbar_init();
  data[0] = 7;
  mk_mbar_expect(bar, late.bytes);
  mk_bulk_load(reinterpret_cast<char*>(data) + late.destination_skip,
               reinterpret_cast<const char*>(late.source) + late.source_skip, late.bytes, bar, 0);
  late.early = data[0];
  late.source[0] = 2;  // the copy reads its source when it completes, so it sees this write
  wait_phase(bar, 0, step);
  late.late = data[0];
}

void uninitialised(const mkrt::MkSession*, const mkrt::MkStep*) {
  mk_mbar_arrive(reinterpret_cast<uint64_t*>(mk_shared() + 64));
}

void overwritten(const mkrt::MkSession*, const mkrt::MkStep*) {
  if (mk_thread() != 0) return;
  auto* bar = reinterpret_cast<uint64_t*>(mk_shared() + 64);
  mk_mbar_init(bar, 1);
  *bar = 0;
  mk_mbar_arrive(bar);
}

void too_many_arrivals(const mkrt::MkSession*, const mkrt::MkStep*) {
  if (mk_thread() != 0) return;
  auto* bar = reinterpret_cast<uint64_t*>(mk_shared());
  mk_mbar_init(bar, 1);
  mk_mbar_expect(bar, 16);
  mk_mbar_arrive(bar);
}

// Thread 0 waits for an mbarrier, and thread 32 overwrites it.
void overwritten_under_a_wait(const mkrt::MkSession*, const mkrt::MkStep* step) {
  auto* bar = reinterpret_cast<uint64_t*>(mk_shared() + 64);
  if (mk_thread() == 0) mk_mbar_init(bar, 1);
  mk_barrier(0, 64);
  if (mk_thread() == 0) wait_phase(bar, 0, step);
  if (mk_thread() == 32) *bar = 0;
}

// Thread 0 arrives in the place of its copies. They arrive later, while thread 0 waits or warp 1 runs.
void copies_arrive_too_often(const mkrt::MkSession* session, const mkrt::MkStep* step) {
  auto& late = arguments_of<Late>(session);
  auto* bar = reinterpret_cast<uint64_t*>(mk_shared());
  if (mk_thread() == 0) {
    mk_mbar_init(bar, 1);
    mk_async_load16(mk_shared() + 1024, late.source);
    mk_async_arrive(bar);
    mk_mbar_expect(bar, 64);
    mk_mbar_arrive(bar);
    wait_phase(bar, 0, step);
  }
  if (mk_thread() >= 32)
    for (uint32_t i = 0; i < late.bytes; ++i) mk_barrier(2, 32);
}

constexpr uint32_t kMegabyte = 1 << 20;

void expects_a_megabyte(const mkrt::MkSession* session, const mkrt::MkStep*) {
  if (mk_thread() != 0) return;
  auto* bar = reinterpret_cast<uint64_t*>(mk_shared());
  mk_mbar_init(bar, 3);
  mk_mbar_expect(bar, arguments_of<Late>(session).bytes);
  mk_mbar_expect(bar, 16);
}

void tests_parity_2(const mkrt::MkSession*, const mkrt::MkStep*) {
  if (mk_thread() != 0) return;
  auto* bar = reinterpret_cast<uint64_t*>(mk_shared());
  mk_mbar_init(bar, 1);
  mk_mbar_test(bar, 2);
}

void no_bytes(const mkrt::MkSession*, const mkrt::MkStep*) {
  if (mk_thread() != 0) return;
  auto* bar = reinterpret_cast<uint64_t*>(mk_shared());
  mk_mbar_init(bar, 1);
  mk_mbar_expect(bar, 16);
  while (!mk_mbar_try_wait(bar, 0)) {
  }
}

// Thread 0 issues a copy that nobody waits for. Warp 0 then makes `bytes` warp syncs, so that it ends before
// or after the copy.
void unawaited(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& late = arguments_of<Late>(session);
  auto* bar = reinterpret_cast<uint64_t*>(mk_shared());
  if (mk_thread() == 0) {
    mk_mbar_init(bar, 1);
    mk_fence_mbar_init();
    mk_mbar_expect(bar, 16);
    mk_bulk_load(mk_shared() + 1024, late.source, 16, bar, 0);
  }
  for (uint32_t i = 0; i < late.bytes; ++i) mk_warp_sync();
}

Ring make_ring(bool small_copies) {
  Ring ring{};
  ring.small_copies = small_copies;
  ring.fence = true;
  for (uint32_t round = 0; round < kRounds; ++round)
    for (uint32_t i = 0; i < kStageFloats; ++i) ring.source[round][i] = static_cast<float>(round * 100 + i);
  return ring;
}

}  // namespace

TEST_CASE("a ring of stages delivers every tile in order, for bulk and 16-byte copies and any seed") {
  for (bool small_copies : {false, true}) {
    for (uint64_t seed = 0; seed < 6; ++seed) {
      Ring ring = make_ring(small_copies);
      auto options = options_for(1, 64);
      options.seed = seed;
      const Run run = launch(ring_kernel, ring, options);
      REQUIRE(run.error() == "");
      CHECK(run.stats.value().copied_bytes == kRounds * kStageBytes);
      for (uint32_t lane = 0; lane < 32; ++lane) {
        float want = 0;
        for (uint32_t round = 0; round < kRounds; ++round)
          want += static_cast<float>(round * 200 + 2 * lane + 32);
        CHECK(ring.sum[lane] == want);
      }
    }
  }
}

TEST_CASE("a bulk copy's destination is NaN until it completes, and its source is read then") {
  Late late{};
  late.source[0] = 1;
  REQUIRE(launch(late_kernel, late, options_for(1, 32)).error() == "");
  CHECK(std::isnan(late.early));
  CHECK(late.late == 2);
}

TEST_CASE("bulk copies that are not aligned to 16 bytes, or leave shared memory, are errors") {
  Late late{};
  late.source_skip = 4;
  late.bytes = 16;
  CHECK(
      launch(late_kernel, late, options_for(1, 32)).error_has("addresses and size must be multiples of 16"));
  late = {};
  late.destination_skip = 8;
  CHECK(launch(late_kernel, late, options_for(1, 32)).error_has("to shared+0x408: addresses and size"));
  late = {};
  late.bytes = 20;
  CHECK(launch(late_kernel, late, options_for(1, 32)).error_has("mk_bulk_load of 20 bytes"));
  late = {};
  late.destination_skip = 16384 - 1024 - 16;
  CHECK(launch(late_kernel, late, options_for(1, 32)).error_has("to shared+0x3ff0: not in shared memory"));
  late = {};
  late.destination_skip = 16384 - 1024 - 32;
  CHECK(launch(late_kernel, late, options_for(1, 32)).error() == "");
}

TEST_CASE("the copy engine may not use an mbarrier before the fence of its initialisation") {
  Ring ring = make_ring(false);
  ring.fence = false;
  CHECK(launch(ring_kernel, ring, options_for(1, 64)).error() ==
        "worker 0 thread 32: mk_bulk_load on the mbarrier at shared+0x0 before mk_fence_mbar_init by the "
        "thread "
        "that made it");
}

TEST_CASE("misused mbarriers are errors") {
  Late late{};
  CHECK(launch(uninitialised, late, options_for(1, 32)).error() ==
        "worker 0 thread 0: no mbarrier was initialised at shared+0x40");
  CHECK(launch(overwritten, late, options_for(1, 32)).error() ==
        "worker 0 thread 0: the mbarrier at shared+0x40 was overwritten");
  CHECK(launch(too_many_arrivals, late, options_for(1, 32)).error() ==
        "worker 0 thread 0: the mbarrier at shared+0x0 has had all 1 arrivals of its phase already");
  CHECK(launch(tests_parity_2, late, options_for(1, 32)).error() ==
        "worker 0 thread 0: mk_mbar_test for parity 2: must be 0 or 1");
}

TEST_CASE("an mbarrier counts fewer bytes than 2^20") {
  Late late{};
  late.bytes = kMegabyte - 17;
  CHECK(launch(expects_a_megabyte, late, options_for(1, 32)).error() == "");
  late.bytes = kMegabyte - 16;
  CHECK(launch(expects_a_megabyte, late, options_for(1, 32)).error() ==
        "worker 0 thread 0: mk_mbar_expect of 16 bytes: the mbarrier at shared+0x0 then expects 1048576, and "
        "counts at most 1048575");
}

TEST_CASE("an mbarrier that is overwritten under a wait is an error of the thread that waits") {
  Late late{};
  CHECK(launch(overwritten_under_a_wait, late, options_for(1, 64)).error() ==
        "worker 0 thread 0: the mbarrier at shared+0x40 was overwritten");
}

TEST_CASE("arrivals of copies that come too often are an error of the thread that issued the copies") {
  for (const uint32_t barriers : {0u, 100u})
    for (uint64_t seed = 0; seed < 8; ++seed) {
      Late late{};
      late.bytes = barriers;
      auto options = options_for(1, 64);
      options.seed = seed;
      CHECK(launch(copies_arrive_too_often, late, options).error() ==
            "worker 0 thread 0: the mbarrier at shared+0x0 has had all 1 arrivals of its phase already when "
            "the thread's copies arrive (mk_async_arrive)");
    }
}

TEST_CASE("a worker that ends before somebody has waited for its copies is an error") {
  for (const uint32_t syncs : {0u, 1000u}) {
    Late late{};
    late.bytes = syncs;
    CHECK(launch(unawaited, late, options_for(1, 32))
              .error_has("ends the worker, and nobody waited for all copies into its shared memory"));
  }
}

TEST_CASE("announced bytes that never come end in an error that counts them") {
  Late late{};
  CHECK(
      launch(no_bytes, late, options_for(1, 32)).error() ==
      "deadlock:\n  worker 0 threads 0-0: wait for the mbarrier at shared+0x0 (parity 0; missing 0 arrivals "
      "and 16 bytes)");
}
