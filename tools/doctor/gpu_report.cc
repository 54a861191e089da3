#include "tools/doctor/gpu_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "runtime/base/counted.h"
#include "tools/output.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

size_t failures(const CheckReport& report) {
  return static_cast<size_t>(
      std::ranges::count_if(report.checks, [](const CheckOutcome& c) { return !c.fault.empty(); }));
}

size_t passes_of(const CheckReport& report) {
  return static_cast<size_t>(std::ranges::count_if(
      report.checks, [](const CheckOutcome& c) { return c.fault.empty() && c.skipped.empty(); }));
}

// Returns the comma-separated target features whose omission avoids all failures. Returns "" if no features
// do, or nothing failed.
std::string features_that_fail(const CheckReport& report) {
  std::set<std::string> features;
  for (const CheckOutcome& c : report.checks) {
    if (c.fault.empty()) continue;
    if (c.without.empty()) return "";
    features.insert(c.without);
  }
  return fmt::format("{}", fmt::join(features, ","));
}

void print_check(const CheckOutcome& c) {
  const char* state = !c.fault.empty() ? "FAILED" : !c.skipped.empty() ? "skipped" : "passed";
  const std::string& why = c.fault.empty() ? c.skipped : c.fault;
  const std::string made = c.compile_seconds == 0 ? ""
                           : c.cached             ? ", kernel from the cache"
                                                  : fmt::format(", compiled in {:.1f} s", c.compile_seconds);
  print_out("  {:7} {:6.2f} s  {}{}{}{}\n", state, c.seconds, c.name, made, why.empty() ? "" : ": ", why);
}

void print_seconds(const CheckReport& r) {
  print_out("{} of {} passed, in {:.1f} s: {:.1f} s to compile on {} and, partly beside it, ", passes_of(r),
            r.checks.size(), r.seconds, r.compile_seconds, mkrt::counted(r.threads, "thread"));
  print_out("{:.1f} s to open the GPU, {:.1f} s for checks, {:.1f} s to measure\n", r.open_seconds,
            r.check_seconds, r.measure_seconds);
}

void print_measured(const GpuFindings& f) {
  const CheckReport& report = *f.checked;
  if (report.measured.is_null())
    return print_out("Nothing was measured{}{}\n", report.measured_fault.empty() ? "" : ": ",
                     report.measured_fault);
  print_out("\nMeasured on {}:\n", f.facts.name);
  for (const auto& [key, value] : report.measured["seen"].items())
    print_out("  {} {}{}\n", key, json_text(value),
              report.measured["left_out"].contains(key)
                  ? fmt::format(": left out, {}", report.measured["left_out"][key].get<std::string>())
                  : "");
  print_out("  clock {} MHz, of at most {}\n", json_text(report.measured["clock_mhz"]), f.facts.clock_mhz);
  print_out("{}\n",
            f.kept.empty() ? "Not kept: there is no cache" : "Kept in " + f.kept + ", for --target native");
}

ordered_json checks_json(const CheckReport& report) {
  ordered_json checks = ordered_json::array();
  for (const CheckOutcome& c : report.checks)
    checks.push_back({{"name", c.name},
                      {"passed", c.fault.empty() && c.skipped.empty()},
                      {"fault", c.fault},
                      {"skipped", c.skipped},
                      {"seconds", c.seconds},
                      {"compile_seconds", c.compile_seconds},
                      {"cached", c.cached},
                      {"without", c.fault.empty() ? "" : c.without}});
  return checks;
}

}  // namespace

void print_gpu(const GpuFindings& f) {
  const mkrt::DeviceFacts& d = f.facts;
  print_out(
      "\nGPU: compute capability {}.{}, {} SMs, {} bytes of shared memory a block, {} MB, L2 of {} MB\n",
      d.major, d.minor, d.sms, d.shared_bytes, d.memory_bytes >> 20, d.l2_bytes >> 20);
  if (!d.cooperative) print_out("It cannot launch cooperatively: mkc --mode=kernels needs no such launch\n");
  print_out("{}", f.machine.ends_with('\n') ? f.machine : f.machine + "\n");
  for (const std::string& note : f.notes) print_folded(2, "Note: {}\n", note);
  if (!f.checked) return print_out("Not checked: {}\n", f.not_checked);
  const CheckReport& report = *f.checked;
  if (report.checks.empty() && !report.unusable.empty())
    return print_out("The GPU cannot be used: {}\n", report.unusable);
  print_out("\nChecks on {}, against this processor:\n", d.name);
  for (const CheckOutcome& c : report.checks) print_check(c);
  print_seconds(report);
  if (!report.unusable.empty()) print_out("Other checks did not run: {}\n", report.unusable);
  if (const std::string features = features_that_fail(report); !features.empty())
    print_out("mkc compile and mkc run go around what fails by --without {}\n", features);
  print_measured(f);
}

void add_gpu_json(ordered_json& out, const GpuFindings& f) {
  const mkrt::DeviceFacts& d = f.facts;
  out["device"] = {{"uuid", d.uuid},
                   {"capability", fmt::format("{}.{}", d.major, d.minor)},
                   {"sms", d.sms},
                   {"shared_bytes", d.shared_bytes},
                   {"memory_bytes", d.memory_bytes},
                   {"l2_bytes", d.l2_bytes},
                   {"clock_mhz", d.clock_mhz},
                   {"memory_mhz", d.memory_mhz},
                   {"bus_bits", d.bus_bits},
                   {"driver", d.driver}};
  out["machine"] = f.machine;
  out["notes"] = f.notes;
  out["not_checked"] = f.not_checked;
  if (!f.checked) return;
  const CheckReport& r = *f.checked;
  out["checks"] = checks_json(r);
  out["unusable"] = r.unusable;
  out["seconds"] = {{"all", r.seconds},
                    {"threads", r.threads},
                    {"compile", r.compile_seconds},
                    {"compile_primitives", r.probe_seconds},
                    {"open", r.open_seconds},
                    {"checks", r.check_seconds},
                    {"measure", r.measure_seconds}};
  out["free_bytes"] = r.free_bytes;
  out["go_without"] = features_that_fail(r);
  out["measured"] = r.measured;
  out["not_measured"] = r.measured_fault;
  out["measured_file"] = f.kept;
}

Status verdict(const GpuFindings& f) {
  if (!f.checked) return {};
  if (!f.checked->unusable.empty())
    return Error{fmt::format("doctor: error: {} cannot be used: {}", f.facts.name, f.checked->unusable)};
  const size_t failed = failures(*f.checked);
  return failed == 0 ? Status()
                     : Error{fmt::format("doctor: error: {} checks failed on {}", failed, f.facts.name)};
}

}  // namespace mkc
