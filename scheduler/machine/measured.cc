#include "scheduler/machine/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "runtime/base/json_text.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

// A file has these figures, and its targets have those of kTargetFigures.
constexpr std::array kFigures = {"workers",
                                 "memory_bytes",
                                 "l2_bytes",
                                 "l2_bytes_per_ns",
                                 "l2_ns",
                                 "peak_bytes_per_ns",
                                 "stream_bytes_per_ns",
                                 "worker_bytes_per_ns",
                                 "worker_l2_bytes_per_ns",
                                 "load_ns",
                                 "notify_ns"};
constexpr std::array kTargetFigures = {"product_per_ns", "attend_per_ns", "product_stream_per_ns",
                                       "attend_stream_per_ns"};

// These figures of a file decide about a step. The others follow from them, or from the machine.
constexpr std::array kDeciding = {"l2_bytes",
                                  "l2_bytes_per_ns",
                                  "l2_ns",
                                  "stream_bytes_per_ns",
                                  "worker_bytes_per_ns",
                                  "worker_l2_bytes_per_ns",
                                  "load_ns",
                                  "notify_ns"};

// A stream that has stood still starts within a prefetch's distance.
constexpr double kPrefetchedBytes = 4096;

Error fault(const std::string& what) {
  return Error{"measured figures: error: " + what};
}

Error not_measured(const std::string& expected) {
  return fault(fmt::format("not a file of mkc doctor --measure, expected {}", expected));
}

Result<ordered_json> parse(std::string_view text) {
  const mkrt::Result<ordered_json> file = mkrt::parse_ordered_json_text(text, "measured figures");
  if (!file.ok()) return file;
  if (!file.value().is_object()) return not_measured("an object");
  for (const char* key : {"device", "model", "processors", "mkc"})
    if (!file.value().contains(key) || !file.value()[key].is_string())
      return not_measured(fmt::format("the text '{}'", key));
  for (const char* key : {"figures", "targets"})
    if (!file.value().contains(key) || !file.value()[key].is_object())
      return not_measured(fmt::format("the object '{}'", key));
  return file;
}

template <class Keys>
Status overlay(ordered_json& out, const ordered_json& figures, const Keys& keys) {
  if (!figures.is_object()) return not_measured("an object of figures");
  for (const auto& [key, value] : figures.items()) {
    if (std::ranges::find(keys, key) == keys.end())
      return fault(fmt::format("'{}' is no figure that mkc doctor --measure measures", key));
    out[key] = value;
  }
  return {};
}

enum class At { kValue, kLow, kHigh };

// Returns a figure's value, or an end of its range. Zero stands for a figure of another form, which the
// reader of the description refuses.
double number(const ordered_json& out, const char* key, At at = At::kValue) {
  const ordered_json& figure = out[key];
  if (!figure.is_object() || !figure.contains("value") || !figure["value"].is_number()) return 0;
  const size_t end = at == At::kHigh ? 1 : 0;
  const bool has_range = figure.contains("range") && figure["range"].is_array() &&
                         figure["range"].size() == 2 && figure["range"][end].is_number();
  return (at != At::kValue && has_range ? figure["range"][end] : figure["value"]).get<double>();
}

// Makes the nominal one of two rates agree with the measured one: one worker reads no faster than all. Two
// rates that were measured stay, as doctor has compared them.
void order_readers(ordered_json& out, const ordered_json& measured) {
  const char *one = "worker_bytes_per_ns", *all = "stream_bytes_per_ns";
  if (number(out, one) <= number(out, all) || (measured.contains(one) && measured.contains(all))) return;
  const bool keeps_one = measured.contains(one);
  out[keeps_one ? all : one] = out[keeps_one ? one : all];
  out[keeps_one ? all : one]["source"] = "derived: one worker reads no faster than all";
}

// Names the figures that decide about a step, but are nominal: "; nominal: load_ns". "": none.
std::string nominal_text(const ordered_json& figures, const ordered_json& of_target) {
  std::string names;
  const auto add = [&](const char* key, bool is_measured) {
    if (!is_measured) names += (names.empty() ? "; nominal: " : ", ") + std::string(key);
  };
  for (const char* key : kDeciding) add(key, figures.contains(key));
  for (const char* key : kTargetFigures) add(key, of_target.contains(key));
  return names;
}

// Makes figures that were not measured agree with those that were.
void complete(ordered_json& out) {
  const double stream = number(out, "stream_bytes_per_ns"),
               high = number(out, "stream_bytes_per_ns", At::kHigh),
               low = number(out, "stream_bytes_per_ns", At::kLow);
  if (number(out, "peak_bytes_per_ns") < high)
    out["peak_bytes_per_ns"] = {{"value", high}, {"source", "derived: the highest rate of the stream"}};
  if (number(out, "l2_bytes_per_ns") <= high)
    out["l2_bytes_per_ns"] = {{"value", 1.33 * high}, {"source", "guess: a third more than the stream"}};
  // Both ends of a range must agree with the stream's, too.
  if (const double cache = number(out, "l2_bytes_per_ns"); number(out, "l2_bytes_per_ns", At::kLow) <= low)
    out["l2_bytes_per_ns"]["range"][0] = cache;
  if (number(out, "l2_bytes_per_ns", At::kHigh) <= high) out["l2_bytes_per_ns"].erase("range");
  out["cold_burst"] = {{"value", {{kPrefetchedBytes, stream}}}, {"source", "derived: the stream, no ramp"}};
}

std::string measured_slug(const std::string& name) {
  std::string out = slug(name);
  while (out.ends_with('-')) out.pop_back();
  return out.empty() ? "processor" : out;
}

}  // namespace

bool is_measured(std::string_view text) {
  const mkrt::Result<nlohmann::json> file = mkrt::parse_json_text(text, "");
  return file.ok() && file.value().contains("figures");
}

Result<MeasuredOn> measured_on(std::string_view text) {
  const Result<ordered_json> file = parse(text);
  if (!file.ok()) return file.error();
  const ordered_json& f = file.value();
  return MeasuredOn{f["device"], f["model"], f["processors"], f["mkc"]};
}

Result<NativeMachine> machine_of_processor(std::string_view measured, std::string_view target,
                                           const MachineSize& here) {
  const Result<ordered_json> parsed = parse(measured);
  if (!parsed.ok()) return parsed.error();
  const ordered_json& file = parsed.value();
  if (!file["targets"].contains(target)) {
    std::string has;
    for (const auto& [name, figures] : file["targets"].items()) has += (has.empty() ? "" : ", ") + name;
    return fault(fmt::format("no figures for {}, found those for {}", target, has.empty() ? "none" : has));
  }
  const Result<Machine> base = machine_for_target(target);
  if (!base.ok()) return base.error();
  ordered_json out = ordered_json::parse(base.value().json);
  const auto device = file["device"].get<std::string>();
  out["name"] = measured_slug(device);
  out["devices"] = {device};
  if (Status s = overlay(out, file["figures"], kFigures); !s.ok()) return s.error();
  if (Status s = overlay(out, file["targets"][std::string(target)], kTargetFigures); !s.ok())
    return s.error();
  const auto take = [&](const char* key, uint64_t value, const char* what) {
    if (value != 0) out[key] = {{"value", value}, {"source", what}};
  };
  take("workers", here.workers, "threads that mkc may use");
  take("memory_bytes", here.memory_bytes, "memory of the machine");
  order_readers(out, file["figures"]);
  complete(out);
  Result<Machine> machine = read_machine(out.dump(2), "measured figures");
  if (!machine.ok()) return machine.error();
  NativeMachine native;
  native.machine = std::move(machine.value());
  native.said = fmt::format("machine: measured on {}, processors {}, by mkc {}{}\n", device,
                            file["processors"].get<std::string>(), file["mkc"].get<std::string>(),
                            nominal_text(file["figures"], file["targets"][std::string(target)]));
  return native;
}

bool stay_in_cache(const Machine& machine, uint64_t weight_bytes) {
  return machine.is_processor() && weight_bytes <= machine.l2_bytes / 2;
}

Result<Machine> with_weights_in_cache(const Machine& m) {
  ordered_json out = ordered_json::parse(m.json);
  // The value of a figure, and the ends of its range, are each made of those of others.
  const ordered_json from = out;
  const auto put = [&](const char* key, const std::function<double(At)>& make) {
    out[key] = {{"value", make(At::kValue)},
                {"source", "derived: the last-level cache in place of memory"},
                {"range", {make(At::kLow), make(At::kHigh)}}};
  };
  const auto stream = [&](At at) { return number(from, "l2_bytes_per_ns", at); };
  const auto own = [&](At at) { return number(from, "worker_l2_bytes_per_ns", at); };
  put("stream_bytes_per_ns", stream);
  put("peak_bytes_per_ns", stream);
  put("l2_bytes_per_ns", [&](At at) { return std::max(1.33 * stream(at), m.workers * own(at)); });
  put("worker_bytes_per_ns", [&](At at) { return std::min(stream(at), own(at)); });
  put("load_ns", [&](At at) { return number(from, "l2_ns", at); });
  out["product_stream_per_ns"] = out["product_per_ns"];
  out["attend_stream_per_ns"] = out["attend_per_ns"];
  complete(out);
  return read_machine(out.dump(2), m.file + ", its last-level cache");
}

Result<NativeMachine> nominal_processor(std::string_view target, std::string_view reason) {
  Result<Machine> machine = machine_for_target(target);
  if (!machine.ok()) return machine.error();
  return NativeMachine{std::move(machine.value()), fmt::format("machine: nominal {}: {}\n", target, reason)};
}

}  // namespace mkc
