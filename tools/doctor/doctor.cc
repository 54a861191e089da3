#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "codegen/assembler.h"
#include "codegen/cache.h"
#include "codegen/nvptx.h"
#include "runtime/base/file.h"
#include "tools/artefact.h"
#include "tools/commands.h"
#include "tools/doctor/checks.h"
#include "tools/doctor/gpu_notes.h"
#include "tools/doctor/gpu_report.h"
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
  uint32_t first = 0, end = 0;
};

// Findings are everything that doctor looked for and found.
struct Findings {
  struct Candidate {
    std::string path, origin, state;  // state: "used", "usable", or the reason why not
  };
  std::vector<Candidate> assemblers;
  std::vector<std::string> looked_at;
  std::string cache, gpu, assembler;  // assembler: name of the one that is used, or ""
  std::string assembler_fault;        // why the one of --assembler cannot be opened, or ""
  std::optional<GpuFindings> found_gpu;
  ProcessorFindings processor;
};

// Writes the measurements to the file that native_machine() reads.
void keep_measured(GpuFindings& f) {
  const std::string path = measured_path(f.facts);
  if (path.empty() || f.checked->measured.is_null()) return;
  ordered_json file{
      {"device", f.facts.name}, {"uuid", f.facts.uuid}, {"driver", f.facts.driver}, {"mkc", version()}};
  for (const auto& [key, value] : f.checked->measured.items()) file[key] = value;
  ordered_json failed = ordered_json::array();
  for (const CheckOutcome& c : f.checked->checks)
    if (!c.fault.empty()) failed.push_back(c.name);
  file["failed"] = failed;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const std::string text = json_text(file, 1) + "\n";
  if (mkrt::write_file(path, std::as_bytes(std::span(text))).ok()) f.kept = path;
}

void look_at_gpu(GpuFindings& f, const DoctorArguments& a, const std::string& assembler) {
  const Result<Target> target = target_of_capability(f.facts.major, f.facts.minor);
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
    print_err("doctor: {} is checked: {}\n", f.facts.name, check_limits());
    CheckOptions options = a.checks;
    options.driver = f.facts.driver;
    Result<CheckReport> report = check_device(of, options);
    if (report.ok()) {
      f.checked = std::move(report.value());
      keep_measured(f);
    } else {
      f.not_checked = report.error().message;
    }
  }
  f.notes = gpu_notes(f.facts, assembler, f.checked ? &*f.checked : nullptr);
  const Result<NativeMachine> machine = native_machine(a.processor.ignore_measured);
  f.machine = machine.ok() ? machine.value().said : machine.error().message;
}

Result<Findings> look(const DoctorArguments& a) {
  for (const std::string& part : a.checks.only)
    if (!has_check(part))
      return Error{
          fmt::format("--only: error: found {}, which is part of no check's name, expected primitive, body, "
                      "measure, or a part of a name that mkc doctor prints",
                      part)};
  Findings f;
  Result<ProcessorFindings> processor = look_at_processor(a.processor);
  if (!processor.ok()) return processor.error();
  f.processor = std::move(processor.value());
  const mkrt::Result<mkrt::DeviceFacts> facts = mkrt::ask_cuda();
  std::string newer;  // name of the first assembler whose cubins the driver does not load
  AssemblerSearch search = search_assemblers(a.checks.assembler);
  for (const AssemblerCandidate& c : search.found) {
    const OpenedAssembler opened = open_assembler(c.path, facts.ok() ? facts.value().driver : 0);
    const bool usable = opened.fault.empty();
    std::string said = f.assembler.empty() ? "used" : "usable";
    if (!usable) said = opened.assembler ? "newer than the driver" : opened.fault;
    f.assemblers.push_back({c.path, c.origin, said});
    if (usable && f.assembler.empty()) f.assembler = opened.assembler->name();
    if (!usable && opened.assembler && newer.empty()) newer = opened.assembler->name();
    if (!opened.assembler && !a.checks.assembler.empty())
      f.assembler_fault = fmt::format("{} {}: error: {}", c.origin, c.path, opened.fault);
  }
  f.looked_at = std::move(search.looked_at);
  f.cache = default_cache().folder;
  f.gpu = facts.ok() ? facts.value().name : facts.error().message;
  if (!facts.ok()) return f;
  f.found_gpu.emplace();
  f.found_gpu->facts = facts.value();
  look_at_gpu(*f.found_gpu, a, f.assembler.empty() ? newer : f.assembler);
  return f;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Target& target : targets()) names.emplace_back(target.name);
  return names;
}

void print_findings(const Findings& f) {
  print_out("{}, LLVM {}\n\n", version_text(), llvm_version());
  print_out("{}\n", folded(fmt::format("Targets: {}\nMachines: {}\n", fmt::join(target_names(), " "),
                                       fmt::join(machine_names(), " "))));
  print_out("Assemblers, in order of preference:\n");
  for (const Findings::Candidate& c : f.assemblers) print_out("  {} ({}): {}\n", c.path, c.origin, c.state);
  if (f.assembler.empty())
    print_out(
        "  none is usable: mkc writes PTX, not cubins. Install the CUDA toolkit 12.8 or newer, or let\n"
        "  tools/fetch-assembler put NVIDIA's package from the Python index beside mkc, or name\n"
        "  libnvJitLink.so or ptxas by --assembler or MKC_ASSEMBLER.\n");
  print_out("Looked for them at:\n");
  for (const std::string& place : f.looked_at) print_out("  {}\n", place);
  print_out("\nCache: {}\n", f.cache.empty() ? "off" : f.cache);
  print_out("GPU, by libcuda.so.1 where the dynamic loader finds it: {}\n", f.gpu);
  print_out("mkc run uses {} by default\n", f.found_gpu ? "the GPU" : "the processor");
  print_processor(f.processor);
  if (f.found_gpu) print_gpu(*f.found_gpu);
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
                   {"default_device", f.found_gpu ? "cuda" : "cpu"},
                   {"processor", processor_json(f.processor)}};
  if (f.found_gpu) add_gpu_json(out, *f.found_gpu);
  print_out("{}\n", json_text(out, 1));
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
  command->add_option("--end", a->end)->group("");
  command->callback([a, &action] {
    action = [a]() -> Status {
      if (!a->worker.empty()) return run_checks(a->worker, a->first, a->end, a->checks);
      const Result<Findings> looked = look(*a);
      if (!looked.ok()) return looked.error();
      const Findings& found = looked.value();
      (a->json ? print_findings_json : print_findings)(found);
      if (!a->processor.output.empty() && !found.processor.not_kept.empty())
        return Error{found.processor.not_kept};
      if (!found.assembler_fault.empty()) return Error{found.assembler_fault};
      return found.found_gpu ? verdict(*found.found_gpu) : Status();
    };
  });
}

}  // namespace mkc
