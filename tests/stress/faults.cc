// A lost notification ends in an error that names what was waited for, never in a hang.
#include <doctest/doctest.h>

#include <regex>

#include "tests/stress/edits.h"
#include "tests/stress/tiny_model.h"

namespace mkc::test {
namespace {

mkrt::Disturbance lost(uint64_t notification) {
  mkrt::Disturbance lost;
  lost.kind = mkrt::Disturbance::Kind::kDrop;
  lost.at = notification;
  return lost;
}

RunOptions one_step() {
  RunOptions options;
  options.steps = {3};
  return options;
}

// The summands are a step's notifications with 3 tokens: embed, q, k, v, attend, combine, o, gate_up, down,
// logits. Strips of k and v also notify append, which has no task here: nobody waits for these 4. Attend's 2
// each complete their head's only KV tile, and nobody but the notifier reads that counter. The check at the
// step's end finds the loss of these 6.
constexpr int kNotifications = 3 + 4 + 4 + 4 + 2 + 2 + 4 + 12 + 4 + 10;
constexpr int kAwaitedByNobody = 2 + 4;
const std::regex kMiscounted(
    R"(emulator: error: step \d of the launch ended with \d in event l0\.(append|combine)_ready\[\d\], expected \d)");

TEST_CASE("whichever notification is lost, the step ends with a fault, and a fresh session is right") {
  const Compiled compiled(TinyModel{});
  for (const bool bulk_copy : {true, false}) {
    const HostKernel kernel = kernel_of(compiled, {.bulk_copy = bulk_copy, .quick = true});
    const Outcome clean = run(compiled, kernel, one_step());
    REQUIRE(clean.error == "");
    const std::regex fault(
        R"(emulator: error: worker \d task [a-z0-9_.]+\[\d+\] waited for event [a-z0-9_.]+\[\d+\] beyond )"
        R"(10000 ms: seen (\d+), expected (\d+))");
    int faults = 0, miscounted = 0;
    for (uint64_t n = 1; n <= kNotifications + 1; ++n) {
      CAPTURE(n);
      RunOptions options = one_step();
      options.device.disturbance = lost(n);
      options.device.seed = 1;
      const Outcome outcome = run(compiled, kernel, options);
      CAPTURE(outcome.error);
      std::smatch counts;
      if (std::regex_match(outcome.error, counts, fault)) {
        CHECK(std::stoi(counts[1]) < std::stoi(counts[2]));
        ++faults;
      } else if (std::regex_match(outcome.error, kMiscounted)) {
        ++miscounted;
      } else {
        CHECK(outcome == clean);
      }
    }
    CHECK(faults == kNotifications - kAwaitedByNobody);
    CHECK(miscounted == kAwaitedByNobody);
    CHECK(run(compiled, kernel, one_step()) == clean);
  }
}

TEST_CASE("whichever notification of a launch of two steps is lost, it ends with a fault") {
  TinyModel model;
  model.max_tokens = 3;
  const Compiled compiled(model);
  const HostKernel kernel = kernel_of(compiled, {.quick = true});
  RunOptions options = one_step();
  options.samples = 2;
  const Outcome clean = run(compiled, kernel, options);
  REQUIRE(clean.next.size() == 2);
  int events = 0, steps = 0, miscounted = 0, arrivals = 0;
  // The second step embeds one token instead of three. Each of three workers arrives between the steps.
  for (uint64_t n = 1; n <= 2 * kNotifications - 2 + 3; ++n) {
    CAPTURE(n);
    options.device.disturbance = lost(n);
    options.device.seed = 1;
    const Outcome outcome = run(compiled, kernel, options);
    CAPTURE(outcome.error);
    const bool event = outcome.error.find(" waited for event ") != std::string::npos;
    const bool counts = std::regex_match(outcome.error, kMiscounted);
    const bool arrived =
        outcome.error == "emulator: error: step 0 of the launch ended with 2 arrivals of workers, expected 3";
    events += event;
    miscounted += counts;
    arrivals += arrived;
    if (event || counts || arrived || outcome == clean) continue;
    CHECK(std::regex_match(
        outcome.error,
        std::regex(
            R"(emulator: error: worker \d waited for step 1 of the launch beyond 20000 ms: step 0 has begun)")));
    ++steps;
  }
  CHECK(events == 2 * (kNotifications - kAwaitedByNobody) - 2);
  CHECK(miscounted == 2 * kAwaitedByNobody);
  CHECK(steps == 2);
  CHECK(arrivals == 1);  // the last worker to arrive needs only the count that it finds
}

// The expert grids wait for route in their lookup, and for nothing else.
TEST_CASE("a fault in a lookup names the grid whose tasks are looked up, of consumers and loaders") {
  TinyModel model;
  model.shape.family = "qwen3_moe";
  model.shape.experts = 4;
  const Compiled compiled(model);
  const HostKernel kernel = kernel_of(compiled, {.quick = true});
  const std::regex lookup(
      R"(emulator: error: worker \d looking up the tasks of l0\.(gate_up|down) waited for event )"
      R"((l0\.[a-z_]+)\[0\] beyond 10000 ms: seen 0, expected 1)");
  int lookups = 0;
  for (uint64_t n = 1; n <= 40; ++n) {
    RunOptions options = one_step();
    options.device.disturbance = lost(n);
    options.device.seed = n;
    const std::string error = run(compiled, kernel, options).error;
    CAPTURE(error);
    CHECK(error.find("task embed[0] waited for event l0") == error.npos);
    lookups += std::regex_match(error, lookup);
  }
  CHECK(lookups > 0);
}

TEST_CASE("a fault names worker, task, event and counts") {
  const Compiled compiled(TinyModel{});
  const HostKernel kernel = kernel_of(compiled, {.quick = true});
  RunOptions options = one_step();
  options.device.disturbance = lost(1);
  CHECK(run(compiled, kernel, options).error ==
        "emulator: error: worker 1 task l0.v[1] waited for event l0.q_ready[0] beyond 10000 ms: seen 2, "
        "expected 3");
  options.timeout_ns = 7'000'000;
  CHECK(run(compiled, kernel, options).error ==
        "emulator: error: worker 1 task l0.v[1] waited for event l0.q_ready[0] beyond 7 ms: seen 2, "
        "expected 3");
}

TEST_CASE("without a timeout a lost notification is a deadlock that lists who waits") {
  const Compiled compiled(TinyModel{});
  const HostKernel kernel = kernel_of(compiled, {.quick = true});
  RunOptions options = one_step();
  options.device.disturbance = lost(1);
  options.timeout_ns = 0;
  const std::string error = run(compiled, kernel, options).error;
  CHECK(error.starts_with("deadlock:\n  worker 0 threads 0-0, task l0.k[0]: wait for the counter at "));
  CHECK(error.find("threads 1-255, task l0.k[0]: wait in barrier 1 (255 of 256 threads arrived)") !=
        error.npos);
}

TEST_CASE("consumers that stop early leave no copy under way") {
  const Compiled compiled(TinyModel{});
  for (const bool bulk_copy : {true, false}) {
    const HostKernel kernel = kernel_of(
        compiled,
        {.bulk_copy = bulk_copy, .edit = always({"mkd_wait", "4poll", 0, fault_at_once}), .quick = true});
    for (uint64_t seed = 0; seed < 8; ++seed) {
      RunOptions options = one_step();
      options.device.seed = seed;
      const std::string error = run(compiled, kernel, options).error;
      CAPTURE(error);
      CHECK(error.find(" waited for event l0.q_ready[0] beyond 10000 ms: seen 0, expected 3") != error.npos);
    }
  }
}

TEST_CASE("bits do not depend on OS threads, seeds or workers") {
  Outcome first;
  for (uint32_t workers = 1; workers <= 8; ++workers) {
    TinyModel model;
    model.workers = workers;
    const Compiled compiled(model);
    const HostKernel kernel = kernel_of(compiled, {.quick = true});
    for (const uint32_t os_threads : {1u, 2u}) {
      const uint64_t seed = (workers + os_threads) % 3;  // each number of OS threads meets each seed
      CAPTURE(workers);
      CAPTURE(os_threads);
      CAPTURE(seed);
      RunOptions options;
      options.steps = {7, 1, 16, 1};
      options.device.os_threads = os_threads;
      options.device.seed = seed;
      const Outcome outcome = run(compiled, kernel, options);
      REQUIRE(outcome.error == "");
      if (first.next.empty()) first = outcome;
      CHECK(outcome == first);
    }
  }
}

}  // namespace
}  // namespace mkc::test
