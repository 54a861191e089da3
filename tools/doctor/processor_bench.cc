#include "tools/doctor/processor_bench.h"

#include <fmt/format.h>
#include <x86intrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>

#include "runtime/base/counted.h"

namespace mkc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kRunNs = 5e6;
constexpr uint32_t kRuns = 11;
constexpr uint64_t kMinBytes = uint64_t{256} << 20, kMaxBytes = uint64_t{4} << 30;
constexpr uint64_t kOwnParts = 8;    // fewest bytes, in rooms of all threads
constexpr uint64_t kCaches = 4;      // ratio of memory to caches that the reads go for
constexpr char kFill = 0x3c;         // bytes of small numbers in all types of weights
constexpr uint32_t kTrips = 100;     // round trips of a sample
constexpr uint32_t kSamples = 60;    // samples of a pair of threads
constexpr uint32_t kLoads = 20'000;  // loads of a sample
constexpr uint64_t kLine = 64;

double ns_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::nano>(end - begin).count();
}

// The two words of a signal have cache lines of their own.
struct Ball {
  alignas(128) std::atomic<uint32_t> there{0};
  alignas(128) std::atomic<uint32_t> back{0};
};

void await(const std::atomic<uint32_t>& word, uint32_t value) {
  while (word.load(std::memory_order_acquire) != value) _mm_pause();
}

}  // namespace

Spread spread_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  const size_t count = samples.size();
  return {samples.front(),    samples[count / 10],
          samples[count / 2], samples[std::min(count - 1, count * 9 / 10)],
          samples.back(),     static_cast<uint32_t>(count)};
}

Result<std::unique_ptr<ProcessorBench>> ProcessorBench::open(const mkrt::ProcessorFacts& facts) {
  const uint32_t threads = facts.threads;
  std::unique_ptr<ProcessorBench> bench(new ProcessorBench(threads, mkrt::open_processor()));
  if (bench->threads() < threads)
    return Error{fmt::format("error: the system gave {} of {} threads", bench->threads(), threads)};
  const uint64_t own = threads * kOwnBytes,
                 wanted = std::clamp(kCaches * facts.last_cache_bytes, kMinBytes, kMaxBytes);
  bench->bytes_ = std::min(own + wanted, facts.memory_bytes / 2) / kOwnBytes * kOwnBytes;
  if (bench->bytes_ < kOwnParts * own)
    return Error{fmt::format("error: found {} MB of memory, expected {} to measure {}",
                             facts.memory_bytes >> 20, 2 * kOwnParts * own >> 20,
                             mkrt::counted(threads, "thread"))};
  mkrt::Result<uint64_t> memory = bench->device_->allocate(bench->bytes_);
  if (!memory.ok()) return memory.error();
  bench->memory_ = memory.value();
  const uint64_t part = bench->bytes_ / threads;
  bench->together(threads, [&](uint32_t i) {
    std::memset(bench->memory() + i * part, kFill, i + 1 == threads ? bench->bytes_ - i * part : part);
  });
  return bench;
}

double ProcessorBench::together(uint32_t threads, const std::function<void(uint32_t)>& work) {
  std::atomic<uint32_t> ready{0};
  std::vector<Clock::time_point> begin(threads), end(threads);
  crew_.run([&](uint32_t i) {
    if (i >= threads) return;
    ready.fetch_add(1, std::memory_order_acq_rel);
    await(ready, threads);
    begin[i] = Clock::now();
    work(i);
    end[i] = Clock::now();
  });
  return ns_between(*std::ranges::min_element(begin), *std::ranges::max_element(end));
}

Spread ProcessorBench::rate(uint32_t threads, const std::function<uint64_t(uint32_t)>& work) {
  const auto once = [&](uint32_t i) { work(i); };
  together(threads, once);  // warms caches and threads up
  const double once_ns = std::max(1.0, together(threads, once));
  const auto times = static_cast<uint64_t>(std::ceil(kRunNs / once_ns));
  std::vector<double> rates;
  for (uint32_t run = 0; run < kRuns; ++run) {
    std::atomic<uint64_t> done{0};
    const double ns = together(threads, [&](uint32_t i) {
      uint64_t mine = 0;
      for (uint64_t k = 0; k < times; ++k) mine += work(i);
      done.fetch_add(mine, std::memory_order_relaxed);
    });
    rates.push_back(static_cast<double>(done) / threads / ns);
  }
  return spread_of(std::move(rates));
}

Spread ProcessorBench::signal() {
  std::vector<double> samples;
  for (uint32_t other = 1; other < threads(); other = std::min(2 * other, threads() - 1)) {
    Ball ball;
    crew_.run([&](uint32_t i) {
      for (uint32_t trip = 1; trip <= kTrips * (kSamples + 1) && i == other; ++trip) {
        await(ball.there, trip);
        ball.back.store(trip, std::memory_order_release);
      }
      if (i != 0) return;
      for (uint32_t sample = 0, trip = 0; sample <= kSamples; ++sample) {
        const Clock::time_point begin = Clock::now();
        for (uint32_t end = trip + kTrips; trip < end;) {
          ball.there.store(++trip, std::memory_order_release);
          await(ball.back, trip);
        }
        if (sample > 0) samples.push_back(ns_between(begin, Clock::now()) / (2.0 * kTrips));
      }
    });
    if (other == threads() - 1) break;
  }
  return spread_of(std::move(samples));
}

Spread ProcessorBench::latency(uint64_t bytes) {
  const uint64_t lines = bytes / kLine;
  std::vector<double> samples;
  uint64_t at = 1;
  for (uint32_t run = 0; run < kRuns; ++run) {
    const double ns = together(1, [&](uint32_t) {
      for (uint32_t i = 0; i < kLoads; ++i) {
        // The loaded byte is part of the next place, so that a load waits for the one before it.
        at = at * 6364136223846793005 + 1442695040888963407 +
             static_cast<uint64_t>(static_cast<volatile const char*>(memory())[(at >> 20) % lines * kLine]);
      }
    });
    samples.push_back(ns / kLoads);
  }
  return spread_of(std::move(samples));
}

}  // namespace mkc
