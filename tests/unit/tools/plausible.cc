// A measurement of the processor leaves out what other work spoiled.
#include "tools/doctor/plausible.h"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/unit/temp_dir.h"
#include "tools/doctor/processor.h"
#include "tools/room.h"

namespace mkc {
namespace {

Spread runs(double lower, double median, double upper, double max) {
  return {lower, lower, median, upper, max, 11};
}

ProcessorMeasurement measured(double own, double cache, double memory, double one) {
  ProcessorMeasurement m;
  m.figures["worker_l2_bytes_per_ns"] = {{"value", own}};
  m.figures["l2_bytes_per_ns"] = {{"value", cache}};
  m.figures["stream_bytes_per_ns"] = {{"value", memory}};
  m.figures["worker_bytes_per_ns"] = {{"value", one}};
  return m;
}

std::string left_out(const ProcessorMeasurement& m) {
  std::string keys;
  for (const auto& [key, why] : m.left_out.items()) keys += (keys.empty() ? "" : " ") + key;
  return keys;
}

TEST_CASE("runs that differ too much are named with the ratio that is expected") {
  CHECK(rate_fault(runs(13, 14, 15, 16)) == "");
  CHECK(rate_fault(runs(13, 14, 30, 41)) ==
        "14 GB/s in the median and 41 at best, expected a ratio of 2 at most");
  CHECK(rate_fault(runs(1, 14, 15, 16), "G/s") ==
        "1 G/s at the 10th percentile and 14 in the median, expected a ratio of 4 at most");
  Spread interrupted = runs(13, 14, 15, 16);
  interrupted.min = 0.1;
  CHECK(rate_fault(interrupted) == "");
  CHECK(time_fault(runs(90, 100, 150, 9000)) == "");
  CHECK(time_fault(runs(40, 100, 150, 200)) ==
        "100 ns in the median and 40 at best, expected a ratio of 2 at most");
  CHECK(time_fault(runs(90, 100, 500, 900)) ==
        "500 ns at the 90th percentile and 100 in the median, expected a ratio of 4 at most");
  CHECK(signal_fault(runs(10, 100, 700, 90000)) == "");
  CHECK(signal_fault(runs(10, 100, 900, 90000)) ==
        "900 ns at the 90th percentile and 100 in the median, expected a ratio of 8 at most");
}

TEST_CASE("caches that are slower than memory are left out as the work of others") {
  ProcessorMeasurement m = measured(100, 60, 20, 15);
  leave_out_disordered(m, 2);
  CHECK(left_out(m) == "");
  CHECK_FALSE(m.disturbed);

  m = measured(0.065, 2.05, 14, 12);
  leave_out_disordered(m, 2);
  CHECK(left_out(m) == "l2_bytes_per_ns worker_l2_bytes_per_ns");
  CHECK(m.left_out["l2_bytes_per_ns"] ==
        "2.05 GB/s, expected at least the 14 of memory, read by all threads");
  CHECK(m.left_out["worker_l2_bytes_per_ns"] ==
        "0.13 GB/s, expected at least the 14 of memory, read by all threads");
  CHECK(m.figures.size() == 2);
  CHECK(m.disturbed);
}

TEST_CASE("all threads read at least as fast as one, and a cache answers at least as fast as memory") {
  ProcessorMeasurement m = measured(100, 60, 10, 15);
  m.figures["l2_ns"] = {{"value", 130}};
  m.figures["load_ns"] = {{"value", 120}};
  leave_out_disordered(m, 2);
  CHECK(left_out(m) == "stream_bytes_per_ns l2_ns");
  CHECK(m.left_out["stream_bytes_per_ns"] ==
        "10 GB/s, expected at least the 12 of one thread that reads memory, less a fifth");
  CHECK(m.left_out["l2_ns"] == "130 ns, expected at most the 120 of memory");
}

TEST_CASE("unknown sizes are no sizes of 0, and limits of a container are named with their files") {
  mkrt::ProcessorFacts facts;
  facts.memory_bytes = uint64_t{512} << 20;
  CHECK(sizes_text(facts) ==
        "512 MB of memory, an unknown size of cache a core, an unknown size of last-level cache");
  facts.core_cache_bytes = 1 << 20, facts.last_cache_bytes = 32 << 20;
  CHECK(sizes_text(facts) == "512 MB of memory, 1024 KB of cache a core, 32 MB of last-level cache");
  facts.processors = {0, 1, 2, 3};
  facts.threads = 4;
  CHECK(limits_text(facts).empty());
  facts.threads = 2;
  facts.limits = {facts.memory_bytes, "/sys/fs/cgroup/memory.max", 1.5, "/sys/fs/cgroup/cpu.max"};
  CHECK(limits_text(facts) ==
        std::vector<std::string>{"/sys/fs/cgroup/memory.max limits the memory to 512 MB",
                                 "/sys/fs/cgroup/cpu.max limits the processor time to 1.5 processors"});
  facts.threads = 2, facts.processors = {0, 1};  // 1.5 processors of 2 round up to all threads
  CHECK(limits_text(facts).size() == 2);
  CHECK(disturbance_text(facts) ==
        "Other work, or the limit of /sys/fs/cgroup/cpu.max, disturbs the measurement: 1.5 processors for 2 "
        "threads");
  facts.limits.memory_bytes *= 2;  // above what the machine has
  CHECK(limits_text(facts).size() == 1);
}

TEST_CASE(
    "a disturbed measurement leaves a file of more figures as it is, and one that was made elsewhere not") {
  const mkrt::test::TempDir dir;
  const std::string path = dir.path + "/cpu.json";
  mkrt::ProcessorFacts facts;
  facts.model = "AuthenticAMD-25-17-1", facts.processors = {0}, facts.threads = 1;
  const auto write = [&](const ProcessorMeasurement& m) {
    std::ofstream(path) << measured_file(facts, m).dump();
  };
  ProcessorMeasurement m = measured(100, 60, 20, 15);
  CHECK(figures_of(measured_file(facts, m)) == 4);
  write(m);
  leave_out_disturbed(m, "l2_bytes_per_ns", "slow");
  CHECK(why_file_stays(path, facts, m) ==
        "other work disturbed 1 figure; " + path + " stays; -o FILE keeps them");
  CHECK(why_file_stays(dir.path + "/none.json", facts, m) == "");
  m.disturbed = 0;
  CHECK(why_file_stays(path, facts, m) == "");
  m.disturbed = 1;
  write(m);
  CHECK(why_file_stays(path, facts, m) == "");  // as many figures
  write(measured(100, 60, 20, 15));
  facts.model = "AuthenticAMD-25-17-2";
  CHECK(why_file_stays(path, facts, m) == "");
}

TEST_CASE("a container's limit counts the cache, and weights that no file keeps") {
  const auto device = mkrt::open_processor();
  const mkrt::ContainerLimits limits{1'000'000'000, "/memory.max", 0, ""};
  const uint64_t weights = 2'000'000'000;
  CHECK(why_no_room_on(*device, {weights, 100'000'000, 8, 1, true}, limits) == "");
  CHECK(why_no_room_on(*device, {weights, 0, 0, 0, true}, limits) == "");
  CHECK(why_no_room_on(*device, {weights, 100'000'000, 1'000'000'000, 1, true}, limits) ==
        "1.1 GB of workspace and 1 page of the cache do not fit in the 1.0 GB of /memory.max");
  CHECK(why_no_room_on(*device, {weights, 100'000'000, 8, 1}, limits) ==
        "2.1 GB of weights and 1 page of the cache do not fit in the 1.0 GB of /memory.max");
  CHECK(why_no_room_on(*device, {weights, 0, 0, 0}, limits) ==
        "2.0 GB of weights do not fit in the 1.0 GB of /memory.max");
  CHECK(why_no_room_on(*device, {weights / 4, 100'000'000, 8, 1}, limits) == "");
  const auto emulator = mkrt::open_emulator({}, {});
  CHECK(why_no_room_on(*emulator, {weights, 0, 0, 0}, limits) ==
        "2.0 GB of weights do not fit in the 1.0 GB of /memory.max");
}

TEST_CASE("figures that were not measured bound no others") {
  ProcessorMeasurement m;
  m.figures["worker_l2_bytes_per_ns"] = {{"value", 3}};
  leave_out_disordered(m, 1);
  CHECK(left_out(m) == "");
}

}  // namespace
}  // namespace mkc
