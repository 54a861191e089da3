#include "tools/doctor/processor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "runtime/base/file.h"
#include "tools/native.h"
#include "tools/output.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

ordered_json rows_json(const ProcessorMeasurement& measured) {
  ordered_json rows = ordered_json::array();
  for (const MeasuredRow& row : measured.rows)
    rows.push_back({{"what", row.what},
                    {"threads", row.threads},
                    {"unit", row.unit},
                    {"min", row.spread.min},
                    {"median", row.spread.median},
                    {"p90", row.spread.upper},
                    {"max", row.spread.max},
                    {"runs", row.spread.runs}});
  return rows;
}

// Writes the measurement to the file of the options, or to the one that processor_machine() reads.
Status keep(ProcessorFindings& found, const std::string& output) {
  const std::string path = output.empty() ? measured_path(found.facts) : output;
  if (path.empty()) return {};
  if (output.empty()) {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  }
  const std::string text = json_text(measured_file(found.facts, *found.measured), 1) + "\n";
  if (Status s = mkrt::write_file(path, std::as_bytes(std::span(text))); !s.ok()) return s;
  found.kept = path;
  return {};
}

std::string without_end(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

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
    // A measurement takes half a minute, and is not made where it could not be kept.
    if (!options.output.empty())
      if (Status s = mkrt::check_writable(options.output); !s.ok()) return s.error();
    Result<ProcessorMeasurement> measured = measure_processor(found.facts);
    if (!measured.ok()) return measured.error();
    found.measured = std::move(measured.value());
    if (Status s = keep(found, options.output); !s.ok()) return s.error();
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
  print_out("  mkc may use processors {}: {} threads on {} cores\n", mkrt::ranges_text(f.processors),
            f.processors.size(), f.cores);
  print_out("  {} MB of memory, {} KB of cache a core, {} MB of last-level cache\n", f.memory_bytes >> 20,
            f.core_cache_bytes >> 10, f.last_cache_bytes >> 20);
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
  print_out("{}\n", found.kept.empty() ? "Not kept: there is no cache, and -o names no file"
                                       : "Kept in " + found.kept);
}

ordered_json processor_json(const ProcessorFindings& found) {
  const mkrt::ProcessorFacts& f = found.facts;
  ordered_json out{{"name", f.name},
                   {"model", f.model},
                   {"instruction_sets", f.supported},
                   {"target", f.target},
                   {"processors", mkrt::ranges_text(f.processors)},
                   {"threads", f.processors.size()},
                   {"cores", f.cores},
                   {"memory_bytes", f.memory_bytes},
                   {"core_cache_bytes", f.core_cache_bytes},
                   {"last_cache_bytes", f.last_cache_bytes},
                   {"machine", found.machine}};
  if (!found.measured) return out;
  const ProcessorMeasurement& m = *found.measured;
  out["measured"] = {{"seconds", m.seconds},
                     {"seen", rows_json(m)},
                     {"figures", m.figures},
                     {"targets", m.targets},
                     {"left_out", m.left_out}};
  out["measured_file"] = found.kept;
  return out;
}

}  // namespace mkc
