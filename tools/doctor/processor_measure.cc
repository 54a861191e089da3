#include "tools/doctor/processor_measure.h"

#include <fmt/format.h>

#include <chrono>

#include "codegen/processor_loops.h"
#include "runtime/base/counted.h"
#include "runtime/device/processor.h"
#include "scheduler/machine/native.h"
#include "tools/doctor/measure.h"
#include "tools/doctor/plausible.h"
#include "tools/doctor/processor_bench.h"
#include "tools/doctor/processor_loop_rates.h"
#include "tools/seconds.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

constexpr uint64_t kReadUnit = 256;
constexpr double kMinSignal = 5, kMaxSignal = 20000;  // plausible ns of a signal

// Measures with the loops of the processor's best target, and products and attention with those of each.
class Measurer {
 public:
  Measurer(ProcessorBench& bench, const mkrt::ProcessorFacts& facts)
      : bench_(bench),
        facts_(facts),
        loops_(*processor_loops(facts.target)),
        all_(bench.threads()),
        source_(fmt::format("measured by mkc doctor on {}, {}", facts.name, today())) {}

  ProcessorMeasurement measure() {
    count("workers", all_, "threads that mkc may use");
    if (facts_.machine_bytes != 0) count("memory_bytes", facts_.machine_bytes, "memory of the machine");
    read_memory();
    read_caches();
    signal();
    multiply_add(false, "f32");
    multiply_add(true, "bf16");
    for (const std::string& target : mkrt::processor_targets())
      if (mkrt::use_target(target).ok()) loops_of(target);
    leave_out_disordered(m_, all_);
    return std::move(m_);
  }

 private:
  void row(std::string what, uint32_t threads, std::string unit, const Spread& spread) {
    m_.rows.push_back({std::move(what), threads, std::move(unit), spread});
  }
  void count(const char* key, uint64_t value, const char* what) {
    m_.figures[key] = {{"value", value}, {"source", fmt::format("{}: {}", source_, what)}};
  }
  // Keeps the median, unless the runs differ too much. Other work interrupts some runs: the range of a rate
  // begins at the 10th percentile, and that of a time ends at the 90th.
  void rate(const char* key, const Spread& s, const std::string& what) {
    figure(key, s, {s.lower, s.max}, what, rate_fault(s));
  }
  void time(const char* key, const Spread& s, const std::string& what) {
    figure(key, s, {s.min, s.upper}, what, time_fault(s));
  }
  void figure(const char* key, const Spread& s, std::pair<double, double> range, const std::string& what,
              const std::string& fault) {
    if (!fault.empty()) return leave_out_disturbed(m_, key, fault);
    m_.figures[key] = {{"value", to_four_digits(s.median)},
                       {"source", fmt::format("{}: {}", source_, what)},
                       {"range", {to_four_digits(range.first), to_four_digits(range.second)}}};
  }

  Spread read(uint32_t threads, uint64_t bytes_of_thread) {
    return bench_.rate(threads, [&](uint32_t i) {
      loops_.read(bench_.memory() + i * bytes_of_thread, bytes_of_thread);
      return bytes_of_thread;
    });
  }
  static Spread times(Spread s, double by) {
    s.min *= by, s.lower *= by, s.median *= by, s.upper *= by, s.max *= by;
    return s;
  }

  void read_memory() {
    double peak = 0;
    const std::string fault = bench_.bytes() < 2 * facts_.last_cache_bytes
                                  ? fmt::format("{} MB read, expected twice the {} MB of last-level cache",
                                                bench_.bytes() >> 20, facts_.last_cache_bytes >> 20)
                                  : "";
    for (uint32_t threads = 1;; threads = std::min(2 * threads, all_)) {
      const uint64_t part = bench_.bytes() / threads / kReadUnit * kReadUnit;
      const Spread s = times(read(threads, part), threads);
      row("read, memory", threads, "GB/s", s);
      peak = std::max(peak, s.max);
      const std::string what =
          fmt::format("{} MB read by {}", bench_.bytes() >> 20, mkrt::counted(threads, "thread"));
      if (threads == 1 && fault.empty()) rate("worker_bytes_per_ns", s, what);
      if (threads == all_ && fault.empty()) rate("stream_bytes_per_ns", s, what);
      if (threads == all_) break;
    }
    const Spread load = bench_.latency(bench_.bytes());
    row("load, memory", 1, "ns", load);
    if (fault.empty()) {
      m_.figures["peak_bytes_per_ns"] = {{"value", to_four_digits(peak)},
                                         {"source", source_ + ": best read of memory"}};
      time("load_ns", load, "dependent loads from random lines of memory");
    } else {
      for (const char* key : {"worker_bytes_per_ns", "stream_bytes_per_ns", "peak_bytes_per_ns", "load_ns"})
        m_.left_out[key] = fault;
    }
  }

  void read_caches() {
    const uint64_t own = facts_.core_cache_bytes / 2 / kReadUnit * kReadUnit;
    // Each last-level cache holds the parts of all threads that share it in its half.
    const uint64_t last = std::min(facts_.last_cache_bytes / 2 / all_, facts_.last_cache_share_bytes / 2) /
                          kReadUnit * kReadUnit;
    if (own == 0) {
      m_.left_out["worker_l2_bytes_per_ns"] = "the system does not say how large a core's cache is";
    } else {
      const Spread s = read(all_, own);
      row("read, a core's cache", all_, "GB/s a thread", s);
      rate("worker_l2_bytes_per_ns", s, fmt::format("{} KB read by each thread", own >> 10));
    }
    if (last <= 2 * facts_.core_cache_bytes || last * all_ > bench_.bytes()) {
      for (const char* key : {"l2_bytes", "l2_bytes_per_ns", "l2_ns"})
        m_.left_out[key] = "no last-level cache that is larger than those of the cores";
      return;
    }
    const Spread s = times(read(all_, last), all_),
                 load = bench_.latency(std::min(last * all_, facts_.min_last_cache_bytes / 2));
    row("read, last-level cache", all_, "GB/s", s);
    row("load, last-level cache", 1, "ns", load);
    count("l2_bytes", facts_.last_cache_bytes, "last-level caches");
    rate("l2_bytes_per_ns", s, fmt::format("{} KB read by each thread", last >> 10));
    time("l2_ns", load, "dependent loads from random lines");
  }

  void signal() {
    if (all_ < 2) {
      m_.left_out["notify_ns"] = "a signal needs two processors";
      return;
    }
    const Spread s = bench_.signal();
    row("signal to another core", 2, "ns", s);
    if (s.median < kMinSignal || s.median > kMaxSignal)
      m_.left_out["notify_ns"] =
          fmt::format("{:.0f} ns, expected {} to {}", s.median, kMinSignal, kMaxSignal);
    else
      figure("notify_ns", s, {s.min, s.upper}, "half of a round trip of two counters", signal_fault(s));
  }

  void multiply_add(bool bf16, const char* arithmetic) {
    constexpr uint64_t kRounds = 10'000;
    if (loops_.multiply_add(bf16, 1) == 0) return;
    const auto work = [&](uint32_t) { return loops_.multiply_add(bf16, kRounds); };
    for (const uint32_t threads : {1u, all_}) {
      row(fmt::format("multiply-adds, {}", arithmetic), threads, "G/s a thread", bench_.rate(threads, work));
      if (all_ == 1) break;
    }
  }

  using Tokens = ProcessorLoops::Tokens;

  // Keeps the first fault of a table.
  static void note_fault(std::string& fault, const std::string& what, const Spread& s) {
    if (const std::string why = rate_fault(s, "G/s"); fault.empty() && !why.empty())
      fault = what + ": " + why;
  }
  // A table is kept whole or not at all, because its rates are compared with each other.
  void table(const std::string& target, const char* key, const ordered_json& value, const std::string& source,
             const std::string& fault) {
    if (!m_.targets.contains(target)) m_.targets[target] = ordered_json::object();
    if (!fault.empty()) return leave_out_disturbed(m_, fmt::format("{} of {}", key, target), fault);
    m_.targets[target][key] = {{"value", value}, {"source", source}};
  }

  // Measures products and attention on all threads at once.
  void loops_of(const std::string& target) {
    const ProcessorLoops& loops = *processor_loops(target);
    for (const bool cached : {true, false}) {
      ordered_json product, attend;
      std::string product_fault, attend_fault;
      const char* place = cached ? "cached" : "streamed";
      for (const mkrt::WeightType type : mkrt::kWeightTypes)
        for (const auto& [tokens, by] : {std::pair(Tokens::kOne, "one"), std::pair(Tokens::kGroup, "a group"),
                                         std::pair(Tokens::kMany, "many")}) {
          const char* name = mkrt::weight_format(type).name;
          const std::string what = fmt::format("{} by {}, {}, {}", name, by, place, target);
          if (tokens == Tokens::kMany && !cached)
            continue;  // all but the first of many find them in the cache
          Spread s = cached ? cached_product(bench_, loops, type, tokens)
                            : streamed_product(bench_, loops, type, tokens);
          row("product " + what, all_, "G/s a thread", s);
          product[name].push_back(to_four_digits(s.median));
          note_fault(product_fault, what, s);
          const bool group = tokens == Tokens::kGroup;
          // Caches have no groups, and attention has no form of many rows.
          if (mkrt::weight_format(type).grouped() || tokens == Tokens::kMany) continue;
          s = cached ? cached_attention(bench_, loops, type, group)
                     : streamed_attention(bench_, loops, type, group);
          row("attention " + what, all_, "G/s a thread", s);
          attend[name].push_back(to_four_digits(s.median));
          note_fault(attend_fault, what, s);
        }
      const std::string source = fmt::format("{}: multiply-adds of a thread, operands {}", source_,
                                             cached ? "in its core's cache" : "in memory");
      table(target, cached ? "product_per_ns" : "product_stream_per_ns", product, source, product_fault);
      table(target, cached ? "attend_per_ns" : "attend_stream_per_ns", attend, source, attend_fault);
    }
  }

  ProcessorBench& bench_;
  const mkrt::ProcessorFacts& facts_;
  const ProcessorLoops& loops_;
  uint32_t all_;
  std::string source_;
  ProcessorMeasurement m_;
};

}  // namespace

Result<ProcessorMeasurement> measure_processor(const mkrt::ProcessorFacts& facts) {
  const auto begin = std::chrono::steady_clock::now();
  if (facts.target.empty())
    return Error{"doctor: error: found no AVX2, FMA and F16C, expected them to measure this processor"};
  Result<std::unique_ptr<ProcessorBench>> bench = ProcessorBench::open(facts);
  if (!bench.ok()) return Error{"doctor: " + bench.error().message};
  ProcessorMeasurement measured = Measurer(*bench.value(), facts).measure();
  measured.seconds = seconds_since(begin);
  return measured;
}

}  // namespace mkc
