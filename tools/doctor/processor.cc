#include "tools/doctor/processor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "runtime/base/counted.h"
#include "runtime/base/file.h"
#include "runtime/device/container_limits.h"
#include "tools/native.h"
#include "tools/output.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxText = 1 << 20;  // bytes of a file of measurements

ordered_json rows_json(const ProcessorMeasurement& measured) {
  ordered_json rows = ordered_json::array();
  for (const MeasuredRow& row : measured.rows)
    rows.push_back({{"what", row.what},
                    {"threads", row.threads},
                    {"unit", row.unit},
                    {"min", row.spread.min},
                    {"p10", row.spread.lower},
                    {"median", row.spread.median},
                    {"p90", row.spread.upper},
                    {"max", row.spread.max},
                    {"runs", row.spread.runs}});
  return rows;
}

// Returns the file of the options, or the one that processor_machine() reads, or "" where there is no cache.
// Errors: the file cannot be written.
Result<std::string> place_of(const mkrt::ProcessorFacts& facts, const std::string& output) {
  const std::string path = output.empty() ? measured_path(facts) : output;
  if (path.empty()) return path;
  if (output.empty()) {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  }
  if (Status s = mkrt::check_writable(path); !s.ok()) return s.error();
  return path;
}

Status keep(ProcessorFindings& found, const std::string& path, bool is_default) {
  if (path.empty()) return Error{"there is no cache, and -o names no file"};
  if (const std::string why = is_default ? why_file_stays(path, found.facts, *found.measured) : "";
      !why.empty())
    return Error{why};
  const std::string text = json_text(measured_file(found.facts, *found.measured), 1) + "\n";
  if (Status s = mkrt::write_file(path, std::as_bytes(std::span(text))); !s.ok()) return s;
  found.kept = path;
  return {};
}

std::string size_text(uint64_t bytes, int shift, const char* unit) {
  return bytes == 0 ? "an unknown size" : fmt::format("{} {}", bytes >> shift, unit);
}

std::string without_end(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

std::string sizes_text(const mkrt::ProcessorFacts& f) {
  return fmt::format("{} of memory, {} of cache a core, {} of last-level cache",
                     size_text(f.memory_bytes, 20, "MB"), size_text(f.core_cache_bytes, 10, "KB"),
                     size_text(f.last_cache_bytes, 20, "MB"));
}

std::vector<std::string> limits_text(const mkrt::ProcessorFacts& f) {
  std::vector<std::string> said;
  if (f.limits.memory_bytes != 0 && f.limits.memory_bytes == f.memory_bytes)
    said.push_back(fmt::format("{} limits the memory to {} MB", f.limits.memory_file, f.memory_bytes >> 20));
  if (mkrt::has_quota(static_cast<uint32_t>(f.processors.size()), f.limits))
    said.push_back(fmt::format("{} limits the processor time to {:.4g} processors", f.limits.processors_file,
                               f.limits.processors));
  return said;
}

size_t figures_of(const ordered_json& file) {
  size_t count = file["figures"].size();
  for (const auto& [target, figures] : file["targets"].items()) count += figures.size();
  return count;
}

std::string why_file_stays(const std::string& path, const mkrt::ProcessorFacts& facts,
                           const ProcessorMeasurement& measured) {
  if (measured.disturbed == 0) return "";
  const mkrt::Result<std::string> text = mkrt::read_text(path, kMaxText);
  if (!text.ok()) return "";
  const Result<MeasuredOn> made = measured_on(text.value());
  if (!made.ok() || made.value() != this_processor(facts)) return "";
  if (figures_of(ordered_json::parse(text.value())) <= figures_of(measured_file(facts, measured))) return "";
  return fmt::format("other work disturbed {}; {} stays; -o FILE keeps them",
                     mkrt::counted(measured.disturbed, "figure"), path);
}

std::string disturbance_text(const mkrt::ProcessorFacts& f) {
  if (!mkrt::has_quota(f.threads, f.limits))
    return "Other work disturbs the measurement: an idle machine gives the figures that are left out";
  return fmt::format("Other work, or the limit of {}, disturbs the measurement: {:.4g} processors for {}",
                     f.limits.processors_file, f.limits.processors, mkrt::counted(f.threads, "thread"));
}

ordered_json measured_file(const mkrt::ProcessorFacts& facts, const ProcessorMeasurement& measured) {
  const MeasuredOn here = this_processor(facts);
  return {{"device", here.device},         {"model", here.model},
          {"processors", here.processors}, {"mkc", here.mkc},
          {"seen", rows_json(measured)},   {"figures", measured.figures},
          {"targets", measured.targets},   {"left_out", measured.left_out}};
}

Result<ProcessorFindings> look_at_processor(const ProcessorOptions& options) {
  ProcessorFindings found;
  found.facts = mkrt::ask_processor();
  if (options.measure) {
    // A measurement takes up to a minute, and is not made where it could not be kept.
    const Result<std::string> place = place_of(found.facts, options.output);
    if (!place.ok()) return place.error();
    Result<ProcessorMeasurement> measured = measure_processor(found.facts);
    if (!measured.ok()) return measured.error();
    found.measured = std::move(measured.value());
    if (Status s = keep(found, place.value(), options.output.empty()); !s.ok())
      found.not_kept = s.error().message;
  }
  if (found.facts.target.empty()) {
    found.machine = "no target: mkc's code needs AVX2, FMA and F16C";
    return found;
  }
  const Result<NativeMachine> machine = processor_machine(found.facts.target, options.ignore_measured);
  found.machine = without_end(machine.ok() ? machine.value().said : machine.error().message);
  return found;
}

void print_processor(const ProcessorFindings& found) {
  const mkrt::ProcessorFacts& f = found.facts;
  print_out("\nProcessor: {}\n", f.name);
  print_out("  instruction sets: {}; target: {}\n", fmt::join(f.supported, " "),
            f.target.empty() ? "none" : f.target);
  print_out("  mkc may use processors {}: {} on {}\n", mkrt::ranges_text(f.processors),
            mkrt::counted(f.threads, "thread"), mkrt::counted(f.cores, "core"));
  print_out("  {}\n", sizes_text(f));
  for (const std::string& limit : limits_text(f)) print_folded(4, "  {}\n", limit);
  print_folded(4, "  {}\n", found.machine);
  if (!found.measured) return;
  const ProcessorMeasurement& m = *found.measured;
  print_out("\nMeasured in {:.1f} s:\n  {:<46} {:>7}  {:>8} {:>8} {:>8} {:>8}\n", m.seconds, "", "threads",
            "min", "median", "p90", "max");
  for (const MeasuredRow& row : m.rows)
    print_out("  {:<46} {:>7}  {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f}  {}\n", row.what, row.threads,
              row.spread.min, row.spread.median, row.spread.upper, row.spread.max, row.unit);
  for (const auto& [key, why] : m.left_out.items())
    print_out("  {}: left out, {}\n", key, why.get<std::string>());
  if (m.disturbed != 0) print_folded(2, "{}\n", disturbance_text(f));
  print_out("{}\n", found.kept.empty() ? "Not kept: " + found.not_kept : "Kept in " + found.kept);
}

ordered_json processor_json(const ProcessorFindings& found) {
  const mkrt::ProcessorFacts& f = found.facts;
  ordered_json out{{"name", f.name},
                   {"model", f.model},
                   {"instruction_sets", f.supported},
                   {"target", f.target},
                   {"processors", mkrt::ranges_text(f.processors)},
                   {"threads", f.threads},
                   {"cores", f.cores},
                   {"memory_bytes", f.memory_bytes},
                   {"core_cache_bytes", f.core_cache_bytes},
                   {"last_cache_bytes", f.last_cache_bytes},
                   {"limits", limits_text(f)},
                   {"machine", found.machine}};
  if (!found.measured) return out;
  const ProcessorMeasurement& m = *found.measured;
  out["measured"] = {{"seconds", m.seconds}, {"seen", rows_json(m)},   {"figures", m.figures},
                     {"targets", m.targets}, {"left_out", m.left_out}, {"disturbed", m.disturbed != 0}};
  out["measured_file"] = found.kept;
  if (!found.not_kept.empty()) out["not_kept"] = found.not_kept;
  return out;
}

}  // namespace mkc
