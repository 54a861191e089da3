// Race mode knows the last access of each byte, and which proxy made it.
#include "tests/unit/emulator/fixtures.h"

using namespace emulator_tests;
using mkrt::RaceKind;

namespace {

struct Bytes {
  alignas(16) uint8_t bytes[16];
  uint16_t halves[64];
  alignas(16) float source[64];
  alignas(64) uint32_t flag;
  uint32_t how;
};

Run run_bytes(mkrt::KernelEntry kernel, uint32_t workers, uint32_t how, uint32_t threads = 32) {
  Bytes bytes{};
  bytes.how = how;
  auto options = options_for(workers, threads);
  options.race = true;
  return launch(kernel, bytes, options);
}

// Worker 0 reads the first `how` bytes of a word one by one, and nothing orders worker 1 after that. Worker 1
// writes all bytes of the word, the last first.
void write_after_read(const mkrt::MkSession* session, const mkrt::MkStep* step) {
  auto& b = arguments_of<Bytes>(session);
  if (mk_worker() == 0 && mk_thread() == 0) {
    for (uint32_t i = 0; i < b.how; ++i) read(&b.bytes[i], 1);
    mk_red_relaxed(&b.flag, 1);
  }
  if (mk_worker() == 0) return;
  if (mk_thread() == 0) wait_for(&b.flag, 1, step, false);
  for (uint32_t i = 4; i-- > 0;) {
    mk_warp_sync();
    if (mk_thread() == i) write(&b.bytes[i], uint8_t{1}, 10 + i);
  }
}

// Thread 0 writes byte `how`, and nothing orders warp 1 after that. Four lanes of warp 1 write the other
// bytes, and a fifth reads all of them.
void read_after_write(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& b = arguments_of<Bytes>(session);
  if (mk_thread() == 0) write(&b.bytes[b.how], uint8_t{1}, 10 + b.how);
  if (mk_thread() < 32) return;
  for (uint32_t i = 0; i < 4; ++i) {
    if (mk_thread() == 32 + i && i != b.how) write(&b.bytes[i], uint8_t{1}, 10 + i);
    mk_warp_sync();
  }
  if (mk_thread() == 48)
    for (uint32_t i = 4; i-- > 0;) read(&b.bytes[i], 20 + i);
}

void halves(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& b = arguments_of<Bytes>(session);
  read(&b.halves[mk_thread()], 1);
  write(&b.halves[mk_thread()], static_cast<uint16_t>(1), 2);
}

// A word is written as four bytes, then as a whole, then read. All of it is ordered.
void all_ordered(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& b = arguments_of<Bytes>(session);
  if (mk_thread() < 4) write(&b.bytes[mk_thread()], uint8_t{1}, 1);
  mk_warp_sync();
  if (mk_thread() < 2) write(reinterpret_cast<uint16_t*>(b.bytes) + mk_thread(), uint16_t{1}, 2);
  mk_warp_sync();
  if (mk_thread() == 9) write(reinterpret_cast<uint32_t*>(b.bytes), 1u, 3);
  mk_warp_sync();
  if (mk_thread() < 8) read(&b.bytes[mk_thread() % 4], 4);
}

// A thread fills 16 bytes of shared memory by a 16-byte copy and awaits it. With `how` a proxy fence follows.
// A bulk copy over the bytes comes then.
void bulk_over_async(const mkrt::MkSession* session, const mkrt::MkStep* step) {
  auto& b = arguments_of<Bytes>(session);
  auto* bars = reinterpret_cast<uint64_t*>(mk_shared());
  char* data = mk_shared() + 1024;
  if (mk_thread() != 0) return;
  mk_mbar_init(&bars[0], 1);
  mk_mbar_init(&bars[1], 1);
  mk_fence_mbar_init();
  mk_async_load16(data, b.source);
  mk_async_arrive(&bars[0]);
  mk_mbar_arrive(&bars[0]);
  wait_phase(&bars[0], 0, step);
  if (b.how != 0) mk_fence_proxy_async();
  mk_mbar_expect(&bars[1], 16);
  mk_bulk_load(data, b.source, 16, &bars[1], 0);
  wait_phase(&bars[1], 0, step);
}

// All lanes write one byte without order, then count themselves.
void goes_on(const mkrt::MkSession* session, const mkrt::MkStep*) {
  auto& b = arguments_of<Bytes>(session);
  write(&b.bytes[0], uint8_t{1}, mk_thread());
  ++b.flag;
}

}  // namespace

TEST_CASE("a thread goes no further than the race that ends the launch") {
  for (const uint32_t most : {1u, 5u}) {
    Bytes bytes{};
    auto options = options_for(1, 32);
    options.race = true;
    options.max_reports = most;
    const Run run = launch(goes_on, bytes, options);
    CHECK(run.error() == "");
    CHECK(run.races.size() == most);
    CHECK(bytes.flag == most);
  }
}

TEST_CASE("a write of one byte leaves what is known of reads of its neighbours") {
  for (uint32_t read_bytes = 0; read_bytes <= 4; ++read_bytes) {
    CAPTURE(read_bytes);
    const Run run = run_bytes(write_after_read, 2, read_bytes);
    REQUIRE(run.error() == "");
    CHECK(run.races.size() == read_bytes);
    for (const auto& race : run.races) CHECK(race.kind == RaceKind::kWriteAfterRead);
  }
}

TEST_CASE("each byte of a word has a last write of its own") {
  for (uint32_t unordered = 0; unordered < 4; ++unordered) {
    CAPTURE(unordered);
    const Run run = run_bytes(read_after_write, 1, unordered, 64);
    REQUIRE(run.races.size() == 1);
    CHECK(run.races[0].kind == RaceKind::kReadAfterWrite);
    CHECK(run.races[0].earlier.thread == 0);
    CHECK(run.races[0].now.site == 20 + unordered);
  }
}

TEST_CASE("accesses of a word by parts do not race where they are ordered") {
  CHECK(run_bytes(all_ordered, 1, 0).races.empty());
}

TEST_CASE("neighbouring 16-bit values do not race") {
  CHECK(run_bytes(halves, 1, 0).races.empty());
}

TEST_CASE("a bulk copy over a 16-byte copy needs a proxy fence, as 16-byte copies are of the generic proxy") {
  const Run bare = run_bytes(bulk_over_async, 1, 0);
  REQUIRE(bare.races.size() == 1);
  CHECK(bare.races[0].kind == RaceKind::kProxy);
  CHECK(run_bytes(bulk_over_async, 1, 1).races.empty());
}
