#include "tools/doctor/plausible.h"

#include <fmt/format.h>

#include <initializer_list>

namespace mkc {
namespace {

constexpr double kMedianRatio = 2;  // largest ratio of the best run to the median
// The largest ratio of the median to a rate's 10th percentile, or of a time's 90th percentile to the median.
constexpr double kWorstRatio = 4;
// One thread may fill the channels of memory, and all of them disturb each other.
constexpr double kShareOfOne = 0.8;  // smallest ratio of all threads' reads to one's
constexpr double kSignalRatio = 8;   // largest ratio of a signal's 90th percentile to its median

double value_of(const ProcessorMeasurement& m, const char* key) {
  return m.figures.contains(key) ? m.figures[key]["value"].get<double>() : 0;
}

// Returns why a time's 90th percentile is too far above its median, or "".
std::string upper_fault(const Spread& s, double ratio) {
  if (s.upper <= s.median * ratio) return "";
  return fmt::format(
      "{:.4g} ns at the 90th percentile and {:.4g} in the median, expected a ratio of {} at most", s.upper,
      s.median, ratio);
}

// LowerBound is a rate that another must reach. A rate of zero was not measured.
struct LowerBound {
  const char* what;
  double rate;
};

}  // namespace

std::string rate_fault(const Spread& s, const char* unit) {
  if (s.median * kMedianRatio < s.max)
    return fmt::format("{:.4g} {} in the median and {:.4g} at best, expected a ratio of {} at most", s.median,
                       unit, s.max, kMedianRatio);
  if (s.lower * kWorstRatio < s.median)
    return fmt::format(
        "{:.4g} {} at the 10th percentile and {:.4g} in the median, expected a ratio of {} at most", s.lower,
        unit, s.median, kWorstRatio);
  return "";
}

std::string time_fault(const Spread& s) {
  if (s.median > s.min * kMedianRatio)
    return fmt::format("{:.4g} ns in the median and {:.4g} at best, expected a ratio of {} at most", s.median,
                       s.min, kMedianRatio);
  return upper_fault(s, kWorstRatio);
}

std::string signal_fault(const Spread& s) {
  return upper_fault(s, kSignalRatio);
}

void leave_out_disturbed(ProcessorMeasurement& m, const std::string& key, const std::string& why) {
  m.figures.erase(key);
  m.left_out[key] = why;
  ++m.disturbed;
}

void leave_out_disordered(ProcessorMeasurement& m, uint32_t threads) {
  // Each check compares with the figures that the checks before it kept.
  const auto check = [&](const char* key, double rate, std::initializer_list<LowerBound> bounds) {
    if (!m.figures.contains(key)) return;
    for (const LowerBound& bound : bounds)
      if (rate < bound.rate)
        return leave_out_disturbed(
            m, key,
            fmt::format("{:.4g} GB/s, expected at least the {:.4g} of {}", rate, bound.rate, bound.what));
  };
  const double one = value_of(m, "worker_bytes_per_ns");
  check("stream_bytes_per_ns", value_of(m, "stream_bytes_per_ns"),
        {{"one thread that reads memory, less a fifth", kShareOfOne * one}});
  const LowerBound memory{"memory, read by all threads", value_of(m, "stream_bytes_per_ns")};
  check("l2_bytes_per_ns", value_of(m, "l2_bytes_per_ns"), {memory, {"one thread that reads memory", one}});
  const double own = value_of(m, "worker_l2_bytes_per_ns");
  check("worker_l2_bytes_per_ns", own * threads,
        {{"last-level caches, read by all threads", value_of(m, "l2_bytes_per_ns")}, memory});
  check("worker_l2_bytes_per_ns", own, {{"one thread that reads memory", one}});
  if (const double cache = value_of(m, "l2_ns"), load = value_of(m, "load_ns"); load != 0 && cache > load)
    leave_out_disturbed(m, "l2_ns",
                        fmt::format("{:.4g} ns, expected at most the {:.4g} of memory", cache, load));
}

}  // namespace mkc
