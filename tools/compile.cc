#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "codegen/nvptx.h"
#include "ir/dot.h"
#include "ir/print.h"
#include "runtime/packing.h"
#include "scheduler/cost.h"
#include "tools/artefact.h"
#include "tools/commands.h"

namespace mkc {
namespace {

struct CompileArguments {
  ModelRequest request;
  std::string output;
  std::string emit;
  std::vector<std::string> print_after;
  std::string assembler;
  bool no_cache = false;
  bool time_passes = false;
  bool json = false;
};

const std::vector<std::string> kKinds{"yaml", "ops",      "tasks", "schedule", "dot",
                                      "llvm", "manifest", "ptx",   "cubin"};

std::string text_of(const Module& module) {
  return std::visit([](const auto& level) { return print(level); }, module);
}

Status put_text(const std::string& output, const std::string& text) {
  return put_out(output.empty() ? "-" : output, std::as_bytes(std::span(text)), true);
}

// "models/tiny/" and "tiny.yaml" give "tiny".
std::string model_name(const std::string& model) {
  std::filesystem::path path = std::filesystem::path(model).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::string name = std::filesystem::absolute(path).lexically_normal().stem().string();
  return name.empty() ? "model" : name;
}

uint64_t tasks_of(const Schedule& schedule) {
  const std::vector<int64_t> symbols = decode_symbols(schedule.program);
  uint64_t tasks = 0;
  for (const TaskGrid& grid : schedule.program.grids)
    tasks += static_cast<uint64_t>(task_count(grid, symbols));
  return tasks;
}

void print_times(const Compilation& c) {
  double total = 0;
  for (const PassTime& t : c.times) {
    fmt::print(stderr, "{:>10.1f} ms  {}{}\n", t.ms, t.pass, t.beside ? ", beside those above" : "");
    if (!t.beside) total += t.ms;
  }
  fmt::print(stderr, "{:>10.1f} ms  in all\n", total);
}

// The most registers and stack that any kernel takes, and the spills of all.
Resources most_of(const std::vector<Resources>& kernels) {
  Resources most;
  for (const Resources& r : kernels) {
    most.registers = std::max(most.registers, r.registers);
    most.stack_bytes = std::max(most.stack_bytes, r.stack_bytes);
    most.spill_store_bytes += r.spill_store_bytes;
    most.spill_load_bytes += r.spill_load_bytes;
  }
  return most;
}

nlohmann::json summary(const Compilation& c, const GpuBuild& build, const std::string& output) {
  const Schedule& s = c.schedule();
  nlohmann::json out;
  out["output"] = output;
  out["model"] = c.request.family.name;
  out["target"] = c.request.target;
  out["mode"] = mode_name(c.mode);
  out["machine"] = c.machine.name;
  out["workers"] = s.workers;
  out["grids"] = s.program.grids.size();
  out["ring_bytes"] = s.ring.stages * mkrt::kStageBytes;
  out["events"] = s.program.events.size();
  out["event_cells"] = s.event_cells;
  out["decode_tasks"] = tasks_of(s);
  out["kinds"] = find_kinds(s).first.size();
  out["weight_bytes"] = s.weight_bytes;
  out["workspace_bytes"] = s.workspace_bytes;
  out["position_bytes"] = position_bytes(s.program);
  out["ptx_bytes"] = build.ptx.size();
  out["proof"] = to_string(c.proof, s);
  if (!build.assembler.empty()) {
    out["cubin_bytes"] = build.cubin.bytes.size();
    const std::vector<Resources> kernels = read_resources(build.cubin.log);
    const Resources most = most_of(kernels);
    out["registers"] = most.registers;
    out["stack_bytes"] = most.stack_bytes;
    out["spill_bytes"] = most.spill_store_bytes + most.spill_load_bytes;
    for (const Resources& r : kernels)
      out["kernels"][r.kernel] = {{"registers", r.registers},
                                  {"stack_bytes", r.stack_bytes},
                                  {"spill_bytes", r.spill_store_bytes + r.spill_load_bytes}};
    out["assembler"] = build.assembler;
    out["cached"] = build.cached;
  }
  if (c.search) {
    out["search"] = {
        {"trials", c.found.trials}, {"complete", c.found.complete}, {"figures", c.found.figures}};
    if (c.found.wide.from != 0)
      out["search"]["wide_from"] = {{"from", c.found.wide.from}, {"figures", c.found.wide.figures}};
    for (const PlacementRule& rule : c.found.chosen)
      out["search"]["placement"][rule.grids] = placement_name(rule.kind);
  }
  for (const PassTime& t : c.times) out["ms"][t.pass] = t.ms;
  return out;
}

Status report(const CompileArguments& a, const Compilation& c, const GpuBuild& build,
              const std::string& output) {
  if (a.time_passes) print_times(c);
  if (a.json) return put_text(output == "-" ? "" : "-", summary(c, build, output).dump(2) + "\n");
  if (output == "-") return {};
  if (c.search) fmt::print(stderr, "{}\n", to_string(c.found));
  fmt::print(stderr, "{}\n", to_string(c.proof, c.schedule()));
  if (build.assembler.empty()) {
    fmt::print(stderr, "wrote {}: {} bytes of PTX for {}\n", output, build.ptx.size(), c.request.target);
  } else {
    const std::vector<Resources> kernels = read_resources(build.cubin.log);
    const Resources r = most_of(kernels);
    fmt::print(stderr, "wrote {}: {} bytes for {}, {}{} registers, {} bytes spilled{}\n", output,
               build.cubin.bytes.size(), c.request.target,
               kernels.size() == 1 ? "" : fmt::format("{} kernels of up to ", kernels.size()), r.registers,
               r.spill_store_bytes + r.spill_load_bytes, build.cached ? ", from the cache" : "");
  }
  return {};
}

// What ends before a GPU's code: `yaml` and the levels.
Status emit_level(const CompileArguments& a, Compilation& c) {
  if (a.emit == "yaml") return put_text(a.output, resolved_yaml(c.request));
  if (a.emit == "dot") {
    const auto dot = [](const auto& level) -> std::string {
      if constexpr (requires { level.streams; })
        return to_dot(level.program);
      else
        return to_dot(level);
    };
    return put_text(a.output, std::visit(dot, c.module));
  }
  return put_text(a.output, text_of(c.module));
}

// A GPU's code, as far as the output needs it.
struct Code {
  std::string llvm;
  GpuBuild build;
  std::string why_no_cubin;
};

Status make_code(const CompileArguments& a, Compilation& c, Code& code) {
  if (a.emit == "llvm") {
    const Result<Target> target = find_target(c.request.target);
    if (!target.ok()) return target.error();
    code.llvm = make_llvm_ir(c.schedule(), c.mode, target.value());
    return {};
  }
  Result<GpuBuild> made = build_ptx(c);
  if (!made.ok()) return made.error();
  code.build = std::move(made.value());
  if (a.emit == "manifest" || a.emit == "ptx") return {};
  const Result<std::unique_ptr<Assembler>> assembler = find_assembler(a.assembler);
  if (!assembler.ok()) {
    // Asked for nothing in particular, PTX is better than nothing: a driver can compile it.
    if (!a.emit.empty() || !a.assembler.empty() || a.output == "-") return assembler.error();
    code.why_no_cubin = assembler.error().message;
    return {};
  }
  const Cache cache = a.no_cache ? Cache{} : default_cache();
  return build_cubin(code.build, *assembler.value(), cache, c);
}

Status put_code(const CompileArguments& a, const Compilation& c, const Code& code) {
  if (a.emit == "llvm") return put_text(a.output, code.llvm);
  const GpuBuild& build = code.build;
  if (a.emit == "manifest") return put_text(a.output, mkrt::to_json(build.manifest) + "\n");
  if (a.emit == "ptx") {
    if (Status put = put_text(a.output, build.ptx); !put.ok() || a.output.empty()) return put;
    return report(a, c, build, a.output);
  }
  std::string output = a.output.empty() ? model_name(a.request.model) + ".cubin" : a.output;
  if (!code.why_no_cubin.empty()) {
    output = std::filesystem::path(output).replace_extension(".ptx").string();
    fmt::print(stderr, "{}\nno cubin was made\n", code.why_no_cubin);
    if (Status put = put_text(output, build.ptx); !put.ok()) return put;
    return report(a, c, build, output);
  }
  if (Status put = put_out(output, build.cubin.bytes, false); !put.ok()) return put;
  return report(a, c, build, output);
}

// The last pass that the output needs; "" for all.
std::string last_pass(const std::string& emit) {
  if (emit == "yaml" || emit == "ops") return "ops";
  if (emit == "tasks" || emit == "dot") return "events";
  return "";
}

Status compile(const CompileArguments& a) {
  for (const std::string& name : a.print_after)
    if (name != "all" &&
        std::none_of(passes().begin(), passes().end(), [&](const Pass& p) { return p.name == name; }))
      return Error{fmt::format("--print-after {}: error: no such pass, expected all or one of {}", name, [] {
        std::string names;
        for (const Pass& p : passes()) names += (names.empty() ? "" : ", ") + std::string(p.name);
        return names;
      }())};
  Result<Compilation> opened = open_model(a.request, false);
  if (!opened.ok()) return opened.error();
  Compilation& c = opened.value();
  const auto observe = [&](const Pass& pass, const Compilation& now) {
    for (const std::string& name : a.print_after)
      if (name == pass.name || name == "all") {
        fmt::print(stderr, "// after {}: {}\n{}", pass.name, pass.does, text_of(now.module));
        break;
      }
  };
  const std::string last = last_pass(a.emit);
  if (last.empty() && a.emit != "schedule") {
    Code code;
    const Status status = run_passes(c, last, observe, [&] { return make_code(a, c, code); });
    return status.ok() ? put_code(a, c, code) : status;
  }
  if (Status status = run_passes(c, last, observe); !status.ok()) return status;
  if (a.time_passes) print_times(c);
  return emit_level(a, c);
}

}  // namespace

void add_compile(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("compile", "compile a model to a cubin that describes itself");
  auto a = std::make_shared<CompileArguments>();
  add_model_options(*command, a->request);
  command->add_option("-o", a->output, "file to write, - for standard output; default MODEL.cubin");
  command->add_option("--target", a->request.options.target,
                      "sm_80, sm_86, sm_89, sm_90a (default), sm_100a, sm_120");
  command
      ->add_option(
          "--emit", a->emit,
          "what to write instead: yaml (the resolved request), ops, tasks, schedule (.mkir), dot, llvm, "
          "manifest, ptx, or cubin, which unlike the default fails where there is no assembler")
      ->check(CLI::IsMember(kKinds));
  CLI::Option* mode = add_mode_option(*command, a->request.mode);
  command
      ->add_flag_callback(
          "--trace", [a] { a->request.mode = Mode::kTraced; },
          "let the kernel stamp what its workers do when (docs/trace.md)")
      ->excludes(mode);
  command->add_flag("--keep-activations", a->request.keep_activations,
                    "give each activation memory of its own, so that all can be read after a step");
  command->add_option("--print-after", a->print_after,
                      "print the module to standard error after a pass, or all");
  command->add_option("--assembler", a->assembler,
                      "libnvJitLink.so or ptxas; default: found, see mkc doctor");
  command->add_flag("--no-cache", a->no_cache, "neither look for the cubin in the cache nor keep it there");
  command->add_flag("--time-passes", a->time_passes, "print the time of each pass to standard error");
  command->add_flag("--json", a->json, "print a summary to standard output");
  command->callback([a, &action] { action = [a] { return compile(*a); }; });
}

}  // namespace mkc
