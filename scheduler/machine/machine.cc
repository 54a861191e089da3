#include "scheduler/machine/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "ir/diag.h"
#include "ir/schedule.h"
#include "runtime/abi/packing.h"
#include "runtime/base/json_text.h"
#include "scheduler/machine/control_path.h"
#include "scheduler/machine/machine_data.h"

namespace mkc {
namespace {

using nlohmann::json;

// Times, rates and sizes lie within these bounds, so that sums over a step stay finite and exact enough.
constexpr double kLeastFigure = 1e-6, kMostFigure = 1e12;

// Returns a value as an error message shows it.
std::string shown(const json& value) {
  constexpr size_t kLongest = 200;
  std::string text = value.dump();
  return text.size() <= kLongest ? text : fmt::format("a value of {} bytes", text.size());
}

bool is_positive(const json& value) {
  return value.is_number() && value.get<double>() > 0;
}

// Reads the members of one description and keeps the first error.
class Reader {
 public:
  Reader(const json& object, std::string file, std::string_view source)
      : object_(object), file_(std::move(file)), source_(source) {}

  std::string text(const char* key) {
    const json* value = find(key);
    if (value && value->is_string()) return value->get<std::string>();
    if (value) fail(key, fmt::format("{} must be a string, not {}", key, shown(*value)));
    return {};
  }

  std::vector<std::string> texts(const char* key) {
    const json* value = find(key);
    if (!value) return {};
    if (value->is_array() && std::ranges::all_of(*value, &json::is_string)) return *value;
    fail(key, fmt::format("{} must be a list of strings, not {}", key, shown(*value)));
    return {};
  }

  double positive(const char* key) {
    const json* value = figure(key);
    if (!value) return 0;
    check_bounds(key, key, *value);
    if (is_positive(*value)) return value->get<double>();
    fail(key, fmt::format("{} must be a positive number, not {}", key, shown(*value)));
    return 0;
  }

  uint64_t count(const char* key, uint64_t max) {
    const json* value = figure(key);
    if (!value) return 0;
    if (value->is_number_unsigned() && value->get<uint64_t>() >= 1 && value->get<uint64_t>() <= max)
      return value->get<uint64_t>();
    fail(key, fmt::format("{} must be a whole number from 1 to {}, not {}", key, max, shown(*value)));
    return 0;
  }

  bool flag(const char* key) {
    const json* value = figure(key);
    if (value && !value->is_boolean())
      fail(key, fmt::format("{} must be true or false, not {}", key, shown(*value)));
    return value && value->is_boolean() && value->get<bool>();
  }

  std::vector<BurstPoint> bursts(const char* key) {
    std::vector<BurstPoint> points;
    const json* value = figure(key);
    if (!value) return points;
    check_bounds(key, key, *value);
    bool good = value->is_array() && !value->empty();
    for (size_t i = 0; good && i < value->size(); ++i) {
      const json& pair = (*value)[i];
      good = pair.is_array() && pair.size() == 2 && is_positive(pair[0]) && is_positive(pair[1]);
      if (good) points.push_back({pair[0].get<double>(), pair[1].get<double>()});
      if (good && i > 0) good = points[i - 1].bytes < points[i].bytes;
    }
    if (!good)
      fail(key, fmt::format("{} must be a list of [bytes, bytes_per_ns] pairs, rising in bytes, not {}", key,
                            shown(*value)));
    return points;
  }

  // Reads the rates of a loop for each type: of one, of a group, and of many where the loop has that form.
  // Formats with groups may be left out, and then have the rates of e4m3.
  LoopRates loop_rates(const char* key) {
    LoopRates rates{};
    const json* value = figure(key);
    if (!value) return rates;
    check_bounds(key, key, *value);
    if (!value->is_object()) {
      fail(key, fmt::format("{} must be an object of formats, not {}", key, shown(*value)));
      return rates;
    }
    std::set<std::string> known;
    for (const mkrt::WeightType type : mkrt::kWeightTypes) {
      const mkrt::WeightFormat format = mkrt::weight_format(type);
      LoopRate& rate = rates[static_cast<size_t>(type)];
      if (format.grouped() && !value->contains(format.name)) {
        rate = rates[static_cast<size_t>(mkrt::WeightType::kE4m3)];
        continue;
      }
      known.insert(format.name);
      const json entry = value->value(format.name, json());
      if (!entry.is_array() || entry.size() < 2 || entry.size() > 3 ||
          !std::ranges::all_of(entry, is_positive)) {
        fail(key, fmt::format("{} must have two or three positive numbers for {}, not {}", key, format.name,
                              shown(entry)));
        continue;
      }
      rate = {entry[0].get<double>(), entry[1].get<double>()};
      if (entry.size() == 3) rate.many = entry[2].get<double>();
    }
    for (const auto& [name, entry] : value->items())
      if (!known.contains(name)) fail(key, fmt::format("{} has the unknown format '{}'", key, name));
    return rates;
  }

  // Keeps an error at the place of a key.
  void fail(const std::string& key, const std::string& message) {
    if (error_) return;
    Loc loc{file_};
    const size_t at = source_.empty() ? source_.npos : mkrt::find_key(source_, key);
    if (at != source_.npos) {
      loc.line = 1 + static_cast<uint32_t>(std::ranges::count(source_.substr(0, at), '\n'));
      loc.col = static_cast<uint32_t>(at - source_.substr(0, at).rfind('\n'));
    }
    error_ = error_at(loc, message, source_);
  }

  std::optional<Error> finish() {
    for (const auto& [key, value] : object_.items())
      if (!seen_.contains(key)) fail(key, fmt::format("unknown key '{}'", key));
    return error_;
  }

 private:
  const json* find(const char* key) {
    seen_.insert(key);
    const auto it = object_.find(key);
    if (it != object_.end()) return &*it;
    fail(key, fmt::format("missing key '{}'", key));
    return nullptr;
  }

  // Returns the value of a sourced figure, {"value": …, "source": "…"}, with an optional "range": [low,
  // high].
  const json* figure(const char* key) {
    const json* entry = find(key);
    if (!entry) return nullptr;
    if (entry->is_object() && entry->contains("value") && entry->contains("source") &&
        (*entry)["source"].is_string() && entry->size() == 2 + entry->contains("range")) {
      if (entry->contains("range")) check_range(key, *entry);
      return &(*entry)["value"];
    }
    fail(key, fmt::format("{} must be an object with a value, a source and perhaps a range, not {}", key,
                          shown(*entry)));
    return nullptr;
  }

  // Fails if a positive number of the value is out of bounds.
  void check_bounds(const char* key, const std::string& what, const json& value) {
    if (value.is_structured())
      for (const json& part : value) check_bounds(key, what, part);
    else if (value.is_number() && value > 0 && (value < kLeastFigure || value > kMostFigure))
      fail(key, fmt::format("{} must be from {:g} to {:g}, not {}", what, kLeastFigure, kMostFigure,
                            value.dump()));
  }

  void check_range(const char* key, const json& figure) {
    const json &range = figure["range"], &value = figure["value"];
    if (!value.is_number() || value <= 0) return;  // the reader of the value reports this
    check_bounds(key, fmt::format("range of {}", key), range);
    const bool good = range.is_array() && range.size() == 2 && range[0].is_number() && range[1].is_number() &&
                      0 < range[0] && range[0] <= value && value <= range[1];
    if (!good)
      fail(key, fmt::format("range of {} must be two positive numbers around its value, not {}", key,
                            shown(range)));
  }

  const json& object_;
  std::string file_;
  std::string_view source_;  // text of the file; "": the description is no file
  std::set<std::string> seen_;
  std::optional<Error> error_;
};

// Reads the figures that GPUs and the emulator alone have.
void read_gpu(Reader& read, Machine& m) {
  m.shared_bytes_per_ns = read.positive("shared_bytes_per_ns");
  m.code_cache_bytes = read.positive("code_cache_bytes");
  m.code_bytes_per_ns = read.positive("code_bytes_per_ns");
  m.activations_ns = read.positive("activations_ns");
  m.bf16_activations_ns = read.positive("bf16_activations_ns");
  m.wgmma_bytes_per_ns = read.positive("wgmma_bytes_per_ns");
  m.mma8_bytes_per_ns = read.positive("mma8_bytes_per_ns");
  m.mma16_bytes_per_ns = read.positive("mma16_bytes_per_ns");
  m.mma_per_ns = read.positive("mma_per_ns");
  m.fp8_mma = read.flag("fp8_mma");
  m.mma_fp8_per_ns = read.positive("mma_fp8_per_ns");
  m.fma16_bytes_per_ns = read.positive("fma16_bytes_per_ns");
  m.attend_bytes_per_ns = read.positive("attend_bytes_per_ns");
}

// Reads the figures that processors alone have.
void read_processor(Reader& read, Machine& m) {
  m.group_tokens = static_cast<uint32_t>(read.count("group_tokens", 64));
  m.group_rows = static_cast<uint32_t>(read.count("group_rows", 64));
  m.product = read.loop_rates("product_per_ns");
  m.attend = read.loop_rates("attend_per_ns");
  m.product_stream = read.loop_rates("product_stream_per_ns");
  m.attend_stream = read.loop_rates("attend_stream_per_ns");
}

}  // namespace

Result<Machine> read_machine(std::string_view text, const std::string& file, std::string_view source) {
  const mkrt::Result<json> parsed = mkrt::parse_json_text(text, file);
  if (!parsed.ok()) return parsed.error();
  const json& object = parsed.value();
  if (!object.is_object())
    return Error{fmt::format("{}: error: found {}, expected an object", file, shown(object))};
  Reader read(object, file, source);
  Machine m;
  m.json = text;
  m.file = file;
  m.name = read.text("name");
  m.target = read.text("target");
  m.devices = read.texts("devices");
  m.clock_mhz = read.positive("clock_mhz");
  m.workers = static_cast<uint32_t>(read.count("workers", 4096));
  m.shared_bytes = read.count("shared_bytes", 1u << 24);
  m.ring_stages = static_cast<uint32_t>(read.count("ring_stages", 1024));
  if (m.ring_stages < kMinRing || m.ring_stages > kMaxRing)
    read.fail("ring_stages",
              fmt::format("ring_stages must be {} to {}, not {}", kMinRing, kMaxRing, m.ring_stages));
  m.bulk_copy = read.flag("bulk_copy");
  m.warpgroups = read.flag("warpgroups");
  m.memory_bytes = read.count("memory_bytes", uint64_t{1} << 50);
  m.l2_bytes = read.count("l2_bytes", uint64_t{1} << 40);
  m.l2_bytes_per_ns = read.positive("l2_bytes_per_ns");
  m.peak_bytes_per_ns = read.positive("peak_bytes_per_ns");
  m.stream_bytes_per_ns = read.positive("stream_bytes_per_ns");
  m.cold_burst = read.bursts("cold_burst");
  m.reduce_ns = read.positive("reduce_ns");
  m.store_ns = read.positive("store_ns");
  m.notify_ns = read.positive("notify_ns");
  m.barrier_ns = read.positive("barrier_ns");
  m.instruction_ns = read.positive("instruction_ns");
  m.shared_ns = read.positive("shared_ns");
  m.fetch_ns = read.positive("fetch_ns");
  m.task_ns = read.positive("task_ns");
  m.poll_ns = read.positive("poll_ns");
  m.ticket_ns = read.positive("ticket_ns");
  m.load_ns = read.positive("load_ns");
  m.worker_bytes_per_ns = read.positive("worker_bytes_per_ns");
  m.worker_l2_bytes_per_ns = read.positive("worker_l2_bytes_per_ns");
  m.l2_ns = read.positive("l2_ns");
  (m.is_processor() ? read_processor : read_gpu)(read, m);

  const uint64_t needed = uint64_t{m.ring_stages} * mkrt::kStageBytes + kBesideRingBytes;
  if (needed > m.shared_bytes)
    read.fail(
        "ring_stages",
        fmt::format(
            "a ring of {} stages needs {} bytes of shared memory with barriers and scratch, {} are usable",
            m.ring_stages, needed, m.shared_bytes));
  if (m.l2_bytes_per_ns <= m.stream_bytes_per_ns)
    read.fail("l2_bytes_per_ns", fmt::format("l2_bytes_per_ns must exceed stream_bytes_per_ns, {}, not {}",
                                             m.stream_bytes_per_ns, m.l2_bytes_per_ns));
  if (m.stream_bytes_per_ns > m.peak_bytes_per_ns)
    read.fail("stream_bytes_per_ns",
              fmt::format("stream_bytes_per_ns must not exceed peak_bytes_per_ns, {}, but is {}",
                          m.peak_bytes_per_ns, m.stream_bytes_per_ns));
  if (auto error = read.finish()) return *error;
  return m;
}

uint32_t max_workers(const Machine& m) {
  constexpr uint32_t kMaxThreads = 1024;
  return m.is_gpu() ? m.workers : std::max(m.workers, kMaxThreads);
}

double hop_ns(const Machine& m) {
  return m.reduce_ns + m.store_ns + m.notify_ns + m.barrier_ns + product_start_ns(m);
}

Result<Machine> machine_at(const Machine& machine, RangeEnd end) {
  json description = json::parse(machine.json);
  for (auto& [key, figure] : description.items()) {
    if (!figure.is_object() || !figure.contains("range")) continue;
    const bool is_time = key.ends_with("_ns") && !key.ends_with("_per_ns");
    const bool low = is_time == (end == RangeEnd::kFast);
    figure["value"] = figure["range"][low ? 0 : 1];
  }
  return read_machine(description.dump(), fmt::format("{}, its ranges at the {} end", machine.file,
                                                      end == RangeEnd::kFast ? "fast" : "slow"));
}

double burst_ns(const Machine& m, double bytes) {
  if (bytes <= 0) return 0;
  const BurstPoint& first = m.cold_burst.front();
  const BurstPoint& last = m.cold_burst.back();
  // A burst below the first point is all latency and takes as long as the first point.
  if (bytes <= first.bytes) return first.bytes / first.bytes_per_ns;
  for (size_t i = 1; i < m.cold_burst.size(); ++i) {
    const BurstPoint &a = m.cold_burst[i - 1], &b = m.cold_burst[i];
    if (bytes > b.bytes) continue;
    const double share = (bytes - a.bytes) / (b.bytes - a.bytes);
    const double from = a.bytes / a.bytes_per_ns, to = b.bytes / b.bytes_per_ns;
    return from + share * (to - from);
  }
  return last.bytes / last.bytes_per_ns + (bytes - last.bytes) / m.stream_bytes_per_ns;
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const MachineData& data : machine_data()) names.emplace_back(data.name);
  return names;
}

Result<Machine> load_machine(std::string_view name_or_path) {
  for (const MachineData& data : machine_data())
    if (data.name == name_or_path) return read_machine(data.json, fmt::format("{}.json", data.name));

  const std::string path(name_or_path);
  if (path.find('/') == std::string::npos && !path.ends_with(".json")) {
    const std::string near = nearest_name(path, machine_names());
    return Error{fmt::format("error: unknown machine '{}'{}; known: {}", path,
                             near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                             fmt::join(machine_names(), ", "))};
  }
  std::error_code failed;
  const std::filesystem::file_status found = std::filesystem::status(path, failed);
  // A device may never end, and a pipe may never begin.
  if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found))
    return Error{fmt::format("{}: error: is not a regular file", path)};
  std::ifstream file(path);
  if (!file) return Error{fmt::format("{}: error: cannot be read", path)};
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return read_machine(text, path, text);
}

Result<Machine> machine_for_target(std::string_view target) {
  std::vector<std::string> targets;
  for (const std::string& name : machine_names()) {
    Result<Machine> machine = load_machine(name);
    if (!machine.ok() || machine.value().target == target) return machine;
    targets.push_back(machine.value().target);
  }
  targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
  return Error{fmt::format("error: no machine description for target '{}'; known targets: {}", target,
                           fmt::join(targets, ", "))};
}

}  // namespace mkc
