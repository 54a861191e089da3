#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "codegen/nvptx.h"
#include "codegen/shared_object.h"
#include "codegen/targets.h"
#include "frontend/families.h"
#include "ir/dot.h"
#include "ir/print.h"
#include "runtime/base/file.h"
#include "tools/artefact.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/model_path.h"
#include "tools/output.h"
#include "tools/room.h"
#include "tools/summary.h"

namespace mkc {
namespace {

namespace fs = std::filesystem;

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
                                      "llvm", "manifest", "ptx",   "cubin",    "so"};

std::string mkir_text(const Module& module) {
  return std::visit([](const auto& level) { return print(level); }, module);
}

// Returns a path that holds in a model.yaml: as it is if that is stored in the current directory, or
// absolute.
std::string path_in_yaml(const std::string& path, bool in_current_directory) {
  std::error_code failed;
  const fs::path at = in_current_directory ? fs::path(path) : fs::absolute(path, failed);
  // The file's reader takes "link/.." for nothing.
  const bool holds = fs::equivalent(at, at.lexically_normal(), failed);
  return (holds ? at : fs::canonical(at, failed)).string();
}

// Returns the model.yaml to be written to `output`. Error: a name is not UTF-8.
Result<std::string> model_yaml(CompileRequest request, const std::string& output) {
  std::error_code failed;
  const fs::path folder = fs::path(output).has_parent_path() ? fs::path(output).parent_path() : ".";
  const bool here = !output.empty() && output != "-" && mkrt::behind_links(output) == output &&
                    fs::equivalent(folder, ".", failed);
  request.checkpoint = path_in_yaml(request.checkpoint, here);
  std::string& family = request.family.document.source.path;
  if (!is_builtin(request.family)) family = path_in_yaml(family, here);
  std::string text = resolved_yaml(request);
  if (Status status = check_text({output.empty() ? "-" : output, text}); !status.ok())
    return Error{status.error().message + ", which --emit yaml cannot write"};
  return text;
}

Status put_text(const std::string& output, const std::string& text) {
  return put_out(output.empty() ? "-" : output, std::as_bytes(std::span(text)), true);
}

// Returns the name of a model: "tiny" for "models/tiny/" and "tiny.yaml".
std::string model_name(const std::string& model) {
  fs::path path = fs::path(model).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  path = fs::absolute(path).lexically_normal();
  const std::string name = (path.extension() == ".yaml" ? path.stem() : path.filename()).string();
  return name.empty() ? "model" : name;
}

// Returns -o, or the default name with this ending. Errors: those of check_output about the default name.
Result<std::string> output_of(const CompileArguments& a, const char* ending) {
  if (!a.output.empty()) return a.output;
  std::string output = model_name(a.request.model) + ending;
  MKC_TRY_STATUS(check_output(output, a.request));
  return output;
}

void print_times(const Compilation& c) {
  double total = 0;
  for (const PassTime& t : c.times) {
    print_err("{:>10.1f} ms  {}{}\n", t.ms, t.pass, t.beside ? ", beside those above" : "");
    if (!t.beside) total += t.ms;
  }
  print_err("{:>10.1f} ms  in all\n", total);
}

// Prints times, warnings and the summary (tools/summary.h) of the file written to `output`.
Status report(const CompileArguments& a, const Compilation& c, nlohmann::json summary,
              const std::string& output, bool cached = false) {
  if (a.time_passes) print_times(c);
  if (a.json) {
    summary["output"] = output;
    summary["checkpoint"] = c.request.checkpoint;
    if (summary.contains("cubin_bytes") || summary.contains("code_bytes")) summary["cached"] = cached;
    for (const PassTime& t : c.times) summary["ms"][t.pass] = t.ms;
    return put_text("-", json_text(summary, 2) + "\n");
  }
  if (const std::string fault = why_no_room(summary["weight_bytes"].get<uint64_t>(), "weights",
                                            c.machine.memory_bytes, c.machine.name);
      !fault.empty())
    print_err("warning: {}\n", fault);
  if (output != "-") put_stderr(folded(to_string(summary, output, cached)));
  return {};
}

// Writes output that needs no GPU code: yaml, dot, and the IR levels.
Status emit_level(const CompileArguments& a, Compilation& c) {
  if (a.emit == "yaml") {
    MKC_TRY(yaml, model_yaml(c.request, a.output));
    return put_text(a.output, yaml);
  }
  if (a.emit == "dot") {
    const auto dot = [](const auto& level) -> std::string {
      if constexpr (requires { level.streams; })
        return to_dot(level.program);
      else
        return to_dot(level);
    };
    return put_text(a.output, std::visit(dot, c.module));
  }
  return put_text(a.output, mkir_text(c.module));
}

// Runs all passes and writes LLVM IR, manifest or PTX. Only PTX in a file has a summary.
Status emit_code(const CompileArguments& a, Compilation& c, const PassObserver& observer,
                 const std::string& output) {
  std::string llvm;
  GpuBuild build;
  const auto make = [&]() -> Status {
    const Result<Target> target = target_of(c);
    if (!target.ok()) return target.error();
    if (a.emit == "llvm") {
      llvm = is_processor(target.value()) ? make_processor_ir(c.schedule(), c.mode, target.value())
                                          : make_llvm_ir(c.schedule(), c.mode, target.value());
      return {};
    }
    if (is_processor(target.value())) {
      build = describe_build(c, target.value().engines);
      return {};
    }
    Result<GpuBuild> made = build_ptx(c);
    if (!made.ok()) return made.error();
    build = std::move(made.value());
    return {};
  };
  if (Status status = run_passes(c, "", observer, make); !status.ok()) return status;
  const bool is_llvm = a.emit == "llvm", is_manifest = a.emit == "manifest";
  const std::string text = is_llvm       ? llvm
                           : is_manifest ? mkrt::to_json(build.manifest) + "\n"
                                         : finish_ptx(c, build);
  if (Status put = put_text(output, text); !put.ok()) return put;
  if (!is_llvm && !is_manifest && !output.empty()) return report(a, c, summarise(c, build), output);
  if (a.time_passes) print_times(c);
  return {};
}

Status emit_cubin(const CompileArguments& a, Compilation& c, const PassObserver& observer) {
  const Result<std::unique_ptr<Assembler>> assembler = find_assembler(a.assembler, c.driver);
  if (!assembler.ok()) {
    // PTX is written instead, unless --emit, --assembler or -o was given. A driver can compile PTX.
    if (!a.emit.empty() || !a.assembler.empty() || !a.output.empty()) return assembler.error();
    MKC_TRY(name, output_of(a, ".ptx"));
    print_err("{}\nno cubin was made\n", assembler.error().message);
    return emit_code(a, c, observer, name);
  }
  MKC_TRY(output, output_of(a, ".cubin"));
  // A cached cubin would run no passes, so --print-after bypasses the cache.
  const Cache cache = a.no_cache || !a.print_after.empty() ? Cache{} : default_cache();
  const Result<BuiltCubin> cubin = build_cubin(c, *assembler.value(), cache, observer);
  if (!cubin.ok()) return cubin.error();
  if (Status put = put_out(output, cubin.value().bytes, false); !put.ok()) return put;
  return report(a, c, nlohmann::json::parse(cubin.value().summary), output, cubin.value().cached);
}

// Writes the shared object of a processor's target.
Status emit_shared_object(const CompileArguments& a, Compilation& c, const PassObserver& observer) {
  MKC_TRY(output, output_of(a, ".so"));
  const Cache cache = a.no_cache || !a.print_after.empty() ? Cache{} : default_cache();
  const Result<BuiltCubin> object = build_shared_object(c, cache, observer);
  if (!object.ok()) return object.error();
  if (Status put = put_out(output, object.value().bytes, false); !put.ok()) return put;
  return report(a, c, nlohmann::json::parse(object.value().summary), output, object.value().cached);
}

// Returns the last pass that the output needs, or "" for all passes.
std::string last_pass(const std::string& emit, bool searches) {
  if (emit == "yaml") return searches ? "search" : "ops";
  if (emit == "ops") return "ops";
  if (emit == "tasks" || emit == "dot") return "events";
  return "";
}

// Refuses --json where there is no summary, and where the output itself takes standard output.
Status check_json(const CompileArguments& a) {
  static constexpr std::array kSummarised = {"", "ptx", "cubin", "so"};
  if (!a.json) return {};
  if (std::ranges::count(kSummarised, a.emit) == 0)
    return Error{fmt::format("--json: error: --emit {} has no summary, expected ptx, cubin or so", a.emit)};
  if (a.emit == "ptx" && a.output.empty())
    return Error{"--json: error: --emit ptx takes standard output, expected -o FILE"};
  return check_is_file("-o", a.output, "--json");
}

// Refuses --emit yaml with flags that a model.yaml cannot hold. A search is for a machine, and its findings
// are in the file.
Status check_yaml(const CompileArguments& a) {
  if (a.emit != "yaml") return {};
  const ModelRequest& r = a.request;
  const char* flag = r.mode == Mode::kTraced       ? "--trace"
                     : r.mode != Mode::kMegakernel ? "--mode"
                     : r.keep_activations          ? "--keep-activations"
                     : !r.without.empty()          ? "--without"
                     : r.search                    ? nullptr
                     : !r.machine.empty()          ? "--machine"
                     : r.ignore_measured           ? "--ignore-measured"
                                                   : nullptr;
  if (flag == nullptr) return {};
  return Error{fmt::format("{}: error: a model.yaml cannot hold it: give it where --emit yaml is not", flag)};
}

// Refuses --print-after of a name that no pass has, or of a pass that the output does not need.
Status check_print_after(const CompileArguments& a) {
  const std::string last = last_pass(a.emit, a.request.search.has_value());
  std::vector<std::string> names, run;
  for (const Pass& pass : passes()) {
    if (run.empty() || run.back() != last) run.emplace_back(pass.name);
    names.emplace_back(pass.name);
  }
  for (const std::string& name : a.print_after) {
    if (name == "all" || std::ranges::count(run, name) > 0) continue;
    if (std::ranges::count(names, name) == 0)
      return Error{fmt::format("--print-after {}: error: no such pass, expected all or one of {}", name,
                               fmt::join(names, ", "))};
    return Error{
        fmt::format("--print-after {}: error: --emit {} runs no such pass, expected all or one of {}", name,
                    a.emit, fmt::join(run, ", "))};
  }
  return {};
}

Status compile(const CompileArguments& a) {
  MKC_TRY_STATUS(check_json(a));
  MKC_TRY_STATUS(check_yaml(a));
  MKC_TRY_STATUS(check_print_after(a));
  if (Status status = check_output(a.output, a.request); !status.ok()) return status;
  Result<Compilation> opened = open_model(a.request, false);
  if (!opened.ok()) return opened.error();
  Compilation& c = opened.value();
  const bool processor = c.machine.is_processor();
  if (processor && !a.assembler.empty())
    return Error{fmt::format("--assembler: error: is for GPUs, found target {}", c.request.target)};
  print_err("{}", c.machine_said);
  const auto observe = [&](const Pass& pass, const Compilation& now) -> Status {
    for (const std::string& name : a.print_after)
      if (name == pass.name || name == "all") {
        print_err("// after {}: {}\n{}", pass.name, pass.does, mkir_text(now.module));
        break;
      }
    return {};
  };
  if (a.emit == (processor ? "cubin" : "so") || (a.emit == "ptx" && processor))
    return Error{fmt::format("--emit {}: error: target {} has none, expected {}", a.emit, c.request.target,
                             processor ? "so" : "ptx or cubin")};
  if (processor && (a.emit.empty() || a.emit == "so")) return emit_shared_object(a, c, observe);
  if (a.emit.empty() || a.emit == "cubin") return emit_cubin(a, c, observe);
  if (a.emit == "llvm" || a.emit == "manifest" || a.emit == "ptx") return emit_code(a, c, observe, a.output);
  if (Status status = run_passes(c, last_pass(a.emit, a.request.search.has_value()), observe); !status.ok())
    return status;
  if (a.time_passes) print_times(c);
  return emit_level(a, c);
}

// Returns the help of --target.
std::string target_help() {
  std::vector<std::string> gpus, processors;
  for (const Target& target : targets())
    (is_processor(target) ? processors : gpus)
        .push_back(target.name + (target.name == kDefaultTarget ? " (default)" : ""));
  return fmt::format("{}, or native: that of the GPU that is there; {}, or x86-64: that of this processor",
                     fmt::join(gpus, ", "), fmt::join(processors, ", "));
}

}  // namespace

void add_compile(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("compile", "compile a model to a cubin or shared object that describes itself");
  auto a = std::make_shared<CompileArguments>();
  add_model_options(*command, a->request);
  command
      ->add_option("-o", a->output,
                   "file to write, - for standard output; default MODEL.cubin, or MODEL.so for a processor")
      ->type_name("FILE");
  command->add_option("--target", a->request.options.target, target_help())->type_name("TARGET");
  command
      ->add_option(
          "--emit", a->emit,
          "what to write instead: yaml (the resolved request), ops, tasks, schedule (.mkir), dot, llvm, "
          "manifest, ptx, cubin or so; cubin fails where there is no assembler; so is for a processor")
      ->check(one_of(kKinds));
  CLI::Option* mode = add_mode_option(*command, a->request.mode);
  command
      ->add_flag_callback(
          "--trace", [a] { a->request.mode = Mode::kTraced; },
          "let the kernel stamp what its workers do when (docs/trace.md)")
      ->excludes(mode);
  command->add_flag("--keep-activations", a->request.keep_activations,
                    "give each activation memory of its own, so that all can be read after a step");
  command
      ->add_option("--print-after", a->print_after, "print the module to standard error after a pass, or all")
      ->type_name("PASS");
  command->add_option("--assembler", a->assembler, "libnvJitLink.so or ptxas; default: found, see mkc doctor")
      ->type_name("FILE");
  command->add_flag("--no-cache", a->no_cache, "neither look for the cubin in the cache nor keep it there");
  command->add_flag("--time-passes", a->time_passes, "print the time of each pass to standard error");
  command->add_flag("--json", a->json, "print a summary of ptx, cubin or so to standard output");
  command->callback([a, &action] { action = [a] { return compile(*a); }; });
}

}  // namespace mkc
