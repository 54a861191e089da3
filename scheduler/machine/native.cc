#include "scheduler/machine/native.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "ir/schedule.h"
#include "runtime/abi/packing.h"
#include "runtime/base/json_text.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

// The share of the peak that large streams read, where the base has no better figure.
constexpr double kShareOfPeak = 0.92;

// Times that scale with the clock of an SM, and rates that scale with it.
constexpr const char* kClockTimes[] = {"reduce_ns",      "store_ns",           "notify_ns", "barrier_ns",
                                       "instruction_ns", "shared_ns",          "fetch_ns",  "task_ns",
                                       "poll_ns",        "ticket_ns",          "load_ns",   "l2_ns",
                                       "activations_ns", "bf16_activations_ns"};
constexpr const char* kClockRates[] = {"worker_bytes_per_ns", "worker_l2_bytes_per_ns", "shared_bytes_per_ns",
                                       "wgmma_bytes_per_ns",  "mma8_bytes_per_ns",      "mma16_bytes_per_ns",
                                       "mma_per_ns",          "mma_fp8_per_ns",         "fma16_bytes_per_ns",
                                       "attend_bytes_per_ns", "code_bytes_per_ns"};

ordered_json figure(double value, const std::string& source) {
  return {{"value", to_four_digits(value)}, {"source", source}};
}
ordered_json count(uint64_t value, const std::string& source) {
  return {{"value", value}, {"source", source}};
}

// Scales a range with its value. The same rounding keeps the value within the range.
ordered_json scaled(const ordered_json& range, double by) {
  return {to_four_digits(range[0].get<double>() * by), to_four_digits(range[1].get<double>() * by)};
}

double distance(const Machine& m, const mkrt::DeviceFacts& facts) {
  const double peak = peak_bytes_per_ns(facts);
  return std::abs(std::log(1.0 * facts.sms / m.workers)) +
         (peak > 0 ? std::abs(std::log(peak / m.peak_bytes_per_ns)) : 0);
}

Result<Machine> base_of(const mkrt::DeviceFacts& facts, std::string_view target, bool& kept) {
  std::optional<Machine> nearest;
  for (const std::string& name : machine_names()) {
    Result<Machine> machine = load_machine(name);
    if (!machine.ok()) return machine;
    const Machine& m = machine.value();
    if (m.target != target) continue;
    kept = m.workers == facts.sms && std::ranges::find(m.devices, facts.name) != m.devices.end();
    if (kept) return machine;
    if (!nearest || distance(m, facts) < distance(*nearest, facts)) nearest = m;
  }
  if (!nearest) return machine_for_target(target);  // returns an error that names the targets
  return *std::move(nearest);
}

// Derives a description from the driver's facts and the base's figures, scaled by ratios.
class Derivation {
 public:
  Derivation(const Machine& base, const mkrt::DeviceFacts& facts)
      : base_(base), facts_(facts), out_(ordered_json::parse(base.json)) {}

  Status derive() {
    const std::string name = slug(facts_.name);
    out_["name"] = name.empty() ? "device" : name;
    out_["devices"] = {facts_.name};
    take("workers", facts_.sms, "multiprocessors");
    take("shared_bytes", facts_.shared_bytes, "shared memory per block, opt-in");
    if (Status status = size_ring(); !status.ok()) return status;
    if (facts_.memory_bytes != 0) take("memory_bytes", facts_.memory_bytes, "memory");
    if (facts_.l2_bytes != 0) take("l2_bytes", facts_.l2_bytes, "L2");
    by_clock();
    by_rate();
    return {};
  }

  std::string json_text() const { return out_.dump(2); }
  std::string said() const { return said_; }

 private:
  void take(const char* key, uint64_t value, const char* what) {
    out_[key] = count(value, fmt::format("CUDA driver, {}: {}", facts_.name, what));
  }

  Status size_ring() {
    const uint64_t room = facts_.shared_bytes - std::min<uint64_t>(facts_.shared_bytes, kBesideRingBytes);
    const uint64_t stages = std::min<uint64_t>(room / mkrt::kStageBytes, kMaxRing);
    if (stages < kMinRing)
      return Error{fmt::format(
          "{}: error: a block may have {} bytes of shared memory, expected at least {} for a ring of {} "
          "stages",
          facts_.name, facts_.shared_bytes, kMinRing * mkrt::kStageBytes + kBesideRingBytes, kMinRing)};
    out_["ring_stages"] =
        count(stages, fmt::format("({} - {}) / {}, rounded down, at most {}", facts_.shared_bytes,
                                  kBesideRingBytes, mkrt::kStageBytes, kMaxRing));
    return {};
  }

  void by_clock() {
    const double clock = facts_.clock_mhz > 0 ? facts_.clock_mhz : base_.clock_mhz;
    const double ratio = clock / base_.clock_mhz;
    out_["clock_mhz"] =
        figure(clock, facts_.clock_mhz > 0 ? fmt::format("CUDA driver, {}: clock", facts_.name)
                                           : fmt::format("guess: {}'s; the driver gives none", base_.name));
    const auto scale = [&](const char* key, double by) {
      const ordered_json from = out_[key];
      const double was = from["value"];
      out_[key] = figure(was * by, fmt::format("derived: {}'s {}, by clocks of {:.0f} and {:.0f} MHz",
                                               base_.name, was, base_.clock_mhz, clock));
      if (from.contains("range")) out_[key]["range"] = scaled(from["range"], by);
    };
    for (const char* key : kClockTimes) scale(key, 1 / ratio);
    for (const char* key : kClockRates) scale(key, ratio);
    const double sms = 1.0 * facts_.sms / base_.workers;
    out_["l2_bytes_per_ns"] =
        figure(base_.l2_bytes_per_ns * sms * ratio,
               fmt::format("derived: {}'s {} for {} SMs at {:.0f} MHz, by SMs and clocks", base_.name,
                           base_.l2_bytes_per_ns, base_.workers, base_.clock_mhz));
    said_ += fmt::format("  times and rates of an SM: {}'s by clocks of {:.0f} and {:.0f} MHz\n", base_.name,
                         base_.clock_mhz, clock);
  }

  void by_rate() {
    double peak = peak_bytes_per_ns(facts_);
    std::string formula = fmt::format("2 x {:.0f} MHz x {} bits / 8", facts_.memory_mhz, facts_.bus_bits);
    if (peak <= 0) {
      peak = base_.peak_bytes_per_ns * facts_.sms / base_.workers;
      formula = fmt::format("guess, as the driver gives no memory clock or bus: {}'s by SMs", base_.name);
    }
    const double share = std::min(base_.stream_bytes_per_ns / base_.peak_bytes_per_ns, kShareOfPeak);
    double stream = share * peak;
    out_["peak_bytes_per_ns"] = figure(peak, "derived: " + formula);
    out_["stream_bytes_per_ns"] = figure(stream, fmt::format("derived: {:.2f} of {:.0f}", share, peak));
    // The simulator requires a higher rate from L2 than from memory.
    if (const double l2 = out_["l2_bytes_per_ns"]["value"].get<double>(); l2 <= stream)
      out_["l2_bytes_per_ns"] = figure(
          1.33 * stream, fmt::format("guess: a third more than the stream; by SMs it would be {}", l2));
    ordered_json bursts = ordered_json::array();
    for (const BurstPoint& p : base_.cold_burst)
      bursts.push_back({p.bytes, to_four_digits(p.bytes_per_ns * stream / base_.stream_bytes_per_ns)});
    out_["cold_burst"] = {{"value", bursts},
                          {"source", fmt::format("derived: {}'s ramp scaled by the stream", base_.name)}};
    said_ += fmt::format("  reading rate: {:.2f} of {:.0f} bytes/ns, {}\n", share, peak, formula);
  }

  const Machine& base_;
  const mkrt::DeviceFacts& facts_;
  ordered_json out_;
  std::string said_;
};

// Tells whether doctor may measure this figure of a description.
bool is_measurable(std::string_view key) {
  return key == "stream_bytes_per_ns" || key == "cold_burst" || key == "notify_ns";
}

// Returns the description with the figures of a file that doctor wrote.
Result<std::string> with_measured(const std::string& description, std::string_view measured,
                                  std::string& said) {
  const mkrt::Result<ordered_json> parsed = mkrt::parse_ordered_json_text(measured, "");
  const ordered_json file = parsed.ok() ? parsed.value() : ordered_json();
  if (!file.is_object() || !file.contains("figures") || !file["figures"].is_object())
    return Error{"measured figures: error: not a file of mkc doctor"};
  ordered_json out = ordered_json::parse(description);
  std::string names;
  for (const auto& [key, value] : file["figures"].items()) {
    if (!is_measurable(key))
      return Error{fmt::format("measured figures: error: '{}' is no figure that mkc doctor measures", key)};
    out[key] = value;
    names += (names.empty() ? "" : ", ") + key;
  }
  if (!names.empty()) said += fmt::format("  measured by mkc doctor on this device: {}\n", names);
  return out.dump(2);
}

}  // namespace

std::string slug(const std::string& name) {
  std::string out;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!out.empty() && out.back() != '-')
      out += '-';
  return out;
}

double to_four_digits(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)) - 3);
  return std::round(value / unit) * unit;
}

double peak_bytes_per_ns(const mkrt::DeviceFacts& facts) {
  return 2 * facts.memory_mhz * facts.bus_bits / 8 / 1000;
}

Result<NativeMachine> machine_of_device(const mkrt::DeviceFacts& facts, std::string_view target,
                                        std::string_view measured) {
  bool kept = false;
  const Result<Machine> base = base_of(facts, target, kept);
  if (!base.ok()) return base.error();
  NativeMachine native;
  std::string text = base.value().json;
  native.said = fmt::format("machine: {} ({}, {} SMs): the kept description {}\n", facts.name, target,
                            facts.sms, base.value().name);
  if (!kept) {
    Derivation derivation(base.value(), facts);
    if (Status status = derivation.derive(); !status.ok()) return status.error();
    text = derivation.json_text();
    native.said = fmt::format("machine: {} ({}, {} SMs): derived from {}, as no description is kept\n{}",
                              facts.name, target, facts.sms, base.value().name, derivation.said());
  }
  if (!measured.empty()) {
    Result<std::string> overlaid = with_measured(text, measured, native.said);
    if (!overlaid.ok()) return overlaid.error();
    text = std::move(overlaid.value());
  }
  Result<Machine> machine = read_machine(text, fmt::format("machine of {}", facts.name));
  if (!machine.ok()) return machine.error();
  native.machine = std::move(machine.value());
  return native;
}

}  // namespace mkc
