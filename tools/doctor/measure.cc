#include "tools/doctor/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>

#include "scheduler/machine/native.h"
#include "tools/seconds.h"

namespace mkc {
namespace {

constexpr uint32_t kReadThreads = 512, kReadRounds = 1000, kRepeats = 5, kClockPolls = 1 << 16;
constexpr uint32_t kStages = 12,
                   kCopyBytes = 16384;  // stages of the bulk copies and their bytes, like a ring's
constexpr uint64_t kMib = uint64_t{1} << 20;
constexpr uint64_t kLargest = uint64_t{2} << 30;
constexpr double kPatience = 0.25;   // the buffer stops growing once a pass over it takes longer, in seconds
constexpr uint64_t kCacheRatio = 8;  // smallest ratio of buffer to L2 for which the rate is that of memory
constexpr double kMinShare = 0.3;
constexpr double kMinNotify = 100, kMaxNotify = 5000;  // plausible times of a signal, in ns

template <class T>
T median(std::vector<T> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class Reader {
 public:
  Reader(Gpu& gpu, const mkrt::DeviceFacts& facts, bool bulk) : gpu_(gpu), facts_(facts), bulk_(bulk) {}

  // Allocates buffers of growing size until a pass over one takes longer than kPatience, or there is no more
  // memory. The last one is used.
  Status open() {
    const uint64_t max = std::max(std::min(kLargest, facts_.memory_bytes / 4) / kMib * kMib, kMib);
    for (uint64_t bytes = kMib;; bytes = std::min(8 * bytes, max)) {
      const Result<uint64_t> data = gpu_.allocate(bytes);
      if (!data.ok() && bytes_ == 0) return data.error();
      if (!data.ok()) break;  // others hold the memory: the buffer before it is used
      const auto begin = std::chrono::steady_clock::now();
      data_ = data.value(), bytes_ = bytes;
      if (Status s = gpu_.run({"fill", 4 * facts_.sms, kReadThreads, 0, {data_, bytes_ / 16}}); !s.ok())
        return s;
      if (bytes == max || seconds_since(begin) > kPatience) break;
    }
    const Result<uint64_t> sink = gpu_.allocate(4), times = gpu_.allocate(uint64_t{16} * 4 * facts_.sms);
    if (!sink.ok() || !times.ok()) return (sink.ok() ? times : sink).error();
    sink_ = sink.value(), times_ = times.value();
    return {};
  }

  uint64_t bytes() const { return bytes_; }

  // Returns the read rate in bytes per ns, the median of some passes. The time of a pass is from the first
  // block's begin to the last block's end.
  Result<double> rate(uint64_t offset, uint64_t size, bool by_copies, bool cold) {
    std::vector<double> rates;
    const auto begin = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < kRepeats && (i == 0 || seconds_since(begin) < 2 * kPatience); ++i) {
      const uint64_t places = std::max<uint64_t>(bytes_ / 2 / size, 1);
      const uint64_t at = cold ? i % places * size : offset;
      if (cold)  // a pass over the other half of the buffer fills the caches
        if (Status s = pass(bytes_ / 2, bytes_ / 2, false); !s.ok()) return s.error();
      if (Status s = pass(at, size, by_copies); !s.ok()) return s.error();
      const uint32_t blocks = by_copies ? facts_.sms : 2 * facts_.sms;
      std::vector<uint64_t> times(2 * blocks);
      if (Status s = gpu_.read(std::as_writable_bytes(std::span(times)), times_); !s.ok()) return s.error();
      uint64_t first = times[0], last = times[1];
      for (uint32_t b = 0; b < blocks; ++b)
        first = std::min(first, times[2 * b]), last = std::max(last, times[2 * b + 1]);
      if (last > first) rates.push_back(static_cast<double>(size) / static_cast<double>(last - first));
    }
    if (rates.empty()) return Error{"the device's clock stood still"};
    return median(rates);
  }

  // Returns the greater of the rates by loads and by bulk copies.
  Result<double> best(uint64_t size, bool cold) {
    Result<double> loads = rate(0, size, false, cold);
    if (!loads.ok() || !bulk_) return loads;
    Result<double> copied = rate(0, size / kCopyBytes * kCopyBytes, true, cold);
    if (!copied.ok()) return copied;
    return std::max(loads.value(), copied.value());
  }

 private:
  Status pass(uint64_t offset, uint64_t size, bool by_copies) {
    if (by_copies)
      return gpu_.run({"read_by_copies",
                       facts_.sms,
                       32,
                       kStages * (kCopyBytes + 8),
                       {data_ + offset, size / kCopyBytes, kCopyBytes, kStages, sink_, times_}});
    return gpu_.run(
        {"read_by_loads", 2 * facts_.sms, kReadThreads, 0, {data_ + offset, size / 16, sink_, times_}});
  }

  Gpu& gpu_;
  const mkrt::DeviceFacts& facts_;
  bool bulk_;
  uint64_t data_ = 0, bytes_ = 0, sink_ = 0, times_ = 0;
};

// Returns the time in ns of a signal between two blocks, the median of some runs.
Result<double> signal(Gpu& gpu) {
  const Result<uint64_t> cells = gpu.allocate(256), out = gpu.allocate(16);
  if (!cells.ok() || !out.ok()) return (cells.ok() ? out : cells).error();
  std::vector<double> samples;
  for (uint32_t i = 0; i < kRepeats; ++i) {
    if (Status s = gpu.clear(cells.value(), 256); !s.ok()) return s.error();
    if (Status s = gpu.run({"hop", 2, 32, 0, {cells.value(), kReadRounds, out.value()}}); !s.ok())
      return s.error();
    uint64_t found[2];
    if (Status s = gpu.read(std::as_writable_bytes(std::span(found)), out.value()); !s.ok()) return s.error();
    if (found[1] == 0) return Error{"a signal did not come"};
    samples.push_back(static_cast<double>(found[0]) / (2.0 * (kReadRounds - 1)));
  }
  return median(samples);
}

// Returns the clock of a multiprocessor in MHz, or 0 where the device's timer stood still.
Result<double> clock_mhz(Gpu& gpu) {
  const Result<uint64_t> out = gpu.allocate(16);
  if (!out.ok()) return out.error();
  if (Status s = gpu.run({"cycles", 1, 1, 0, {out.value(), kClockPolls}}); !s.ok()) return s.error();
  uint64_t found[2];
  if (Status s = gpu.read(std::as_writable_bytes(std::span(found)), out.value()); !s.ok()) return s.error();
  return found[1] == 0 ? 0 : 1000.0 * static_cast<double>(found[0]) / static_cast<double>(found[1]);
}

double to_hundredths(double value) {
  return value < 100 ? std::round(value * 100) / 100 : std::round(value);
}

}  // namespace

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[16] = "";
  (void)std::strftime(text, sizeof(text), "%Y-%m-%d", &parts);
  return text;
}

Result<Measurement> measure(Gpu& gpu, const mkrt::DeviceFacts& facts, bool bulk) {
  Measurement m;
  const std::string source = fmt::format("measured by mkc doctor on {}, {}", facts.name, today());
  // An empty `fault` makes the value a figure. A value with a fault is left out, with the fault as its
  // reason.
  const auto put = [&](const char* key, const nlohmann::ordered_json& value, const std::string& what,
                       const std::string& fault) {
    m.seen[key] = value;
    if (fault.empty())
      m.figures[key] = {{"value", value}, {"source", fmt::format("{}: {}", source, what)}};
    else
      m.left_out[key] = fault;
  };
  const Result<double> notify = signal(gpu);
  if (!notify.ok()) return notify.error();
  put("notify_ns", to_hundredths(notify.value()),
      "release add to the acquire load that sees it, nothing outstanding",
      notify.value() >= kMinNotify && notify.value() <= kMaxNotify
          ? ""
          : fmt::format("{:.0f} ns, expected {} to {}", notify.value(), kMinNotify, kMaxNotify));

  Reader reader(gpu, facts, bulk);
  if (Status s = reader.open(); !s.ok()) return s.error();
  const Result<double> rate = reader.best(reader.bytes(), false);
  if (!rate.ok()) return rate.error();
  const double peak = peak_bytes_per_ns(facts), stream = rate.value();
  std::string fault;
  if (reader.bytes() < kCacheRatio * facts.l2_bytes)
    fault = fmt::format("{} MB read, expected {} times the {} MB of L2", reader.bytes() / kMib, kCacheRatio,
                        facts.l2_bytes / kMib);
  else if (peak > 0 && (stream < kMinShare * peak || stream > peak))
    fault = fmt::format("{:.1f} bytes/ns, expected {:.1f} to {:.1f}, as memory clock and bus say", stream,
                        kMinShare * peak, peak);
  put("stream_bytes_per_ns", to_hundredths(stream),
      fmt::format("{} MB read by all SMs", reader.bytes() / kMib), fault);

  nlohmann::ordered_json bursts = nlohmann::ordered_json::array();
  for (uint64_t size = 2 * kMib; size <= 256 * kMib && size <= reader.bytes() / 2; size *= 2) {
    const Result<double> burst = reader.best(size, true);
    if (!burst.ok()) return burst.error();
    bursts.push_back({size, to_hundredths(std::min(burst.value(), stream))});
  }
  if (fault.empty() && reader.bytes() < 512 * kMib) fault = "the buffer is too small for bursts of 256 MB";
  put("cold_burst", bursts, "bursts that find nothing in the caches", fault);
  const Result<double> clock = clock_mhz(gpu);
  if (!clock.ok()) return clock.error();
  m.clock_mhz = std::round(clock.value());
  return m;
}

}  // namespace mkc
