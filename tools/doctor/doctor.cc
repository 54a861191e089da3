#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "codegen/assembler.h"
#include "codegen/cache.h"
#include "codegen/nvptx.h"
#include "runtime/base/file.h"
#include "tools/artefact.h"
#include "tools/commands.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/processor.h"
#include "tools/flags.h"
#include "tools/native.h"
#include "tools/output.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

struct DoctorArguments {
  CheckOptions checks;
  ProcessorOptions processor;
  bool json = false, no_checks = false;
  std::string worker;  // folder of the checks; set only in the process that runs them
  uint32_t first = 0;
};

// Findings are everything that doctor looked for and found.
struct Findings {
  struct Candidate {
    std::string path, origin, state;  // state: "used", "usable", or the reason why not
  };
  std::vector<Candidate> assemblers;
  std::vector<std::string> looked_at;
  std::string cache, gpu;
  bool has_assembler = false;
  std::optional<mkrt::DeviceFacts> facts;  // facts of the GPU, if there is one
  std::string machine;                     // text on the GPU's target and machine, or the error
  std::optional<CheckReport> checked;
  std::string not_checked;  // reason why the GPU was not checked
  std::string kept;         // file of the measurements
  ProcessorFindings processor;
};

// Writes the measurements to the file that native_machine() reads.
void keep_measured(Findings& f) {
  const std::string path = measured_path(*f.facts);
  if (path.empty() || f.checked->measured.is_null()) return;
  ordered_json file{
      {"device", f.facts->name}, {"uuid", f.facts->uuid}, {"driver", f.facts->driver}, {"mkc", version()}};
  for (const auto& [key, value] : f.checked->measured.items()) file[key] = value;
  ordered_json failed = ordered_json::array();
  for (const CheckOutcome& c : f.checked->checks)
    if (!c.fault.empty()) failed.push_back(c.name);
  file["failed"] = failed;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const std::string text = file.dump(1) + "\n";
  if (mkrt::write_file(path, std::as_bytes(std::span(text))).ok()) f.kept = path;
}

void look_at_gpu(Findings& f, const DoctorArguments& a) {
  const Result<Target> target = target_of_capability(f.facts->major, f.facts->minor);
  if (!target.ok()) {
    f.machine = "error: " + target.error().message;
    f.not_checked = "mkc cannot compile for it";
    return;
  }
  if (a.no_checks) {
    f.not_checked = "--no-checks";
  } else {
    Target of = target.value();
    of.engines = without(of.engines, a.checks.without);
    Result<CheckReport> report = check_device(of, a.checks);
    if (report.ok()) {
      f.checked = std::move(report.value());
      keep_measured(f);
    } else {
      f.not_checked = report.error().message;
    }
  }
  const Result<NativeMachine> machine = native_machine(a.processor.ignore_measured);
  f.machine = machine.ok() ? machine.value().said : machine.error().message;
}

Result<Findings> look(const DoctorArguments& a) {
  Findings f;
  Result<ProcessorFindings> processor = look_at_processor(a.processor);
  if (!processor.ok()) return processor.error();
  f.processor = std::move(processor.value());
  AssemblerSearch search = search_assemblers(a.checks.assembler);
  for (const AssemblerCandidate& c : search.found) {
    const Result<std::unique_ptr<Assembler>> opened = open_assembler(c.path);
    f.assemblers.push_back({c.path, c.origin,
                            !opened.ok()      ? opened.error().message
                            : f.has_assembler ? "usable"
                                              : "used"});
    f.has_assembler |= opened.ok();
  }
  f.looked_at = std::move(search.looked_at);
  f.cache = default_cache().folder;
  const mkrt::Result<mkrt::DeviceFacts> facts = mkrt::ask_cuda();
  f.gpu = facts.ok() ? facts.value().name : facts.error().message;
  if (facts.ok()) f.facts = facts.value(), look_at_gpu(f, a);
  return f;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Target& target : targets()) names.emplace_back(target.name);
  return names;
}

size_t failures(const CheckReport& report) {
  return static_cast<size_t>(
      std::ranges::count_if(report.checks, [](const CheckOutcome& c) { return !c.fault.empty(); }));
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

void print_gpu(const Findings& f) {
  const mkrt::DeviceFacts& d = *f.facts;
  print_out(
      "\nGPU: compute capability {}.{}, {} SMs, {} bytes of shared memory a block, {} MB, L2 of {} MB\n",
      d.major, d.minor, d.sms, d.shared_bytes, d.memory_bytes >> 20, d.l2_bytes >> 20);
  if (!d.cooperative) print_out("It cannot launch cooperatively: mkc --mode=kernels needs no such launch\n");
  print_out("{}", f.machine.ends_with('\n') ? f.machine : f.machine + "\n");
  if (!f.checked) return print_out("Not checked: {}\n", f.not_checked);
  const CheckReport& report = *f.checked;
  print_out("\nChecks on {}, against this processor:\n", d.name);
  for (const CheckOutcome& c : report.checks)
    print_out("  {}  {}{}{}\n", c.fault.empty() ? "passed" : "FAILED", c.name, c.fault.empty() ? "" : ": ",
              c.fault);
  print_out("{} of {} passed, in {:.1f} s\n", report.checks.size() - failures(report), report.checks.size(),
            report.seconds);
  if (const std::string features = features_that_fail(report); !features.empty())
    print_out("mkc compile and mkc run go around what fails by --without {}\n", features);
  if (report.measured.is_null())
    return print_out("Nothing was measured{}{}\n", report.measured_fault.empty() ? "" : ": ",
                     report.measured_fault);
  print_out("\nMeasured on {}:\n", d.name);
  for (const auto& [key, value] : report.measured["seen"].items())
    print_out("  {} {}{}\n", key, value.dump(),
              report.measured["left_out"].contains(key)
                  ? fmt::format(": left out, {}", report.measured["left_out"][key].get<std::string>())
                  : "");
  print_out("{}\n",
            f.kept.empty() ? "Not kept: there is no cache" : "Kept in " + f.kept + ", for --target native");
}

void print_findings(const Findings& f) {
  print_out("{}, LLVM {}\n\n", version_text(), llvm_version());
  print_out("{}\n", folded(fmt::format("Targets: {}\nMachines: {}\n", fmt::join(target_names(), " "),
                                       fmt::join(machine_names(), " "))));
  print_out("Assemblers, in order of preference:\n");
  for (const Findings::Candidate& c : f.assemblers) print_out("  {} ({}): {}\n", c.path, c.origin, c.state);
  if (!f.has_assembler)
    print_out(
        "  none is usable: mkc writes PTX, not cubins. Install the CUDA toolkit 12.8 or newer, or let\n"
        "  tools/fetch-assembler put NVIDIA's package from the Python index beside mkc, or name\n"
        "  libnvJitLink.so or ptxas by --assembler or MKC_ASSEMBLER.\n");
  print_out("Looked for them at:\n");
  for (const std::string& place : f.looked_at) print_out("  {}\n", place);
  print_out("\nCache: {}\n", f.cache.empty() ? "off" : f.cache);
  print_out("GPU, by libcuda.so.1 where the dynamic loader finds it: {}\n", f.gpu);
  print_out("mkc run uses {} by default\n", f.facts ? "the GPU" : "the processor");
  print_processor(f.processor);
  if (f.facts) print_gpu(f);
}

void print_findings_json(const Findings& f) {
  ordered_json assemblers = ordered_json::array();
  for (const Findings::Candidate& c : f.assemblers)
    assemblers.push_back({{"path", c.path}, {"origin", c.origin}, {"state", c.state}});
  ordered_json out{{"version", version()},
                   {"commit", commit()},
                   {"llvm", llvm_version()},
                   {"targets", target_names()},
                   {"machines", machine_names()},
                   {"assemblers", assemblers},
                   {"looked_at", f.looked_at},
                   {"cache", f.cache},
                   {"gpu", f.gpu},
                   {"default_device", f.facts ? "cuda" : "cpu"},
                   {"processor", processor_json(f.processor)}};
  if (f.facts) {
    const mkrt::DeviceFacts& d = *f.facts;
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
    out["not_checked"] = f.not_checked;
  }
  if (f.checked) {
    ordered_json checks = ordered_json::array();
    for (const CheckOutcome& c : f.checked->checks)
      checks.push_back({{"name", c.name},
                        {"passed", c.fault.empty()},
                        {"fault", c.fault},
                        {"seconds", c.seconds},
                        {"without", c.fault.empty() ? "" : c.without}});
    out["checks"] = checks;
    out["check_seconds"] = f.checked->seconds;
    out["go_without"] = features_that_fail(*f.checked);
    out["measured"] = f.checked->measured;
    out["not_measured"] = f.checked->measured_fault;
    out["measured_file"] = f.kept;
  }
  print_out("{}\n", out.dump(1));
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "doctor",
      "what mkc finds on this machine, what is missing, how fast it is, and whether the GPU does as it must");
  auto a = std::make_shared<DoctorArguments>();
  command->add_flag("--json", a->json, "print JSON");
  command->add_flag("--no-checks", a->no_checks, "neither check nor measure the GPU");
  command->add_option("--only", a->checks.only,
                      "run checks alone whose names have this part: primitive, body, measure, wgmma, …");
  CLI::Option* measure = command->add_flag("--measure", a->processor.measure,
                                           "measure the processor for some seconds, for --target x86-64");
  command->add_option("-o,--output", a->processor.output, "file of the measurement; default: in the cache")
      ->type_name("FILE")
      ->needs(measure);
  command->add_flag("--ignore-measured", a->processor.ignore_measured,
                    "show the machine without what was measured");
  add_without_option(*command, a->checks.without);
  command->add_option("--assembler", a->checks.assembler, "libnvJitLink.so or ptxas; default: found")
      ->type_name("FILE");
  command->add_option("--worker", a->worker)->group("");  // hidden: doctor passes it to its own process
  command->add_option("--first", a->first)->group("");
  command->callback([a, &action] {
    action = [a]() -> Status {
      if (!a->worker.empty()) return run_checks(a->worker, a->first, a->checks);
      const Result<Findings> looked = look(*a);
      if (!looked.ok()) return looked.error();
      const Findings& found = looked.value();
      (a->json ? print_findings_json : print_findings)(found);
      const size_t failed = found.checked ? failures(*found.checked) : 0;
      return failed == 0
                 ? Status()
                 : Status(Error{fmt::format("doctor: error: {} checks failed on {}", failed, found.gpu)});
    };
  });
}

}  // namespace mkc
