#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "codegen/assembler.h"
#include "codegen/cache.h"
#include "codegen/nvptx.h"
#include "runtime/device.h"
#include "tools/artefact.h"
#include "tools/commands.h"
#include "tools/output.h"

namespace mkc {
namespace {

// What it looks for, and what is there.
struct Findings {
  struct Candidate {
    std::string path, origin, state;  // "used", "usable", or why not
  };
  std::vector<Candidate> assemblers;
  std::vector<std::string> looked_at;
  std::string cache, gpu;
  bool has_assembler = false, has_gpu = false;
};

Findings look() {
  Findings f;
  AssemblerSearch search = search_assemblers("");
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
  const mkrt::Result<std::unique_ptr<mkrt::Device>> gpu = mkrt::open_cuda();
  f.has_gpu = gpu.ok();
  f.gpu = gpu.ok() ? gpu.value()->name() : gpu.error().message;
  return f;
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const Target& target : targets()) names.emplace_back(target.name);
  return names;
}

void print_text(const Findings& f) {
  print_out("{}, LLVM {}\n\n", version_text(), llvm_version());
  print_out("Targets: {}\nMachines: {}\n\n", fmt::join(target_names(), " "), fmt::join(machine_names(), " "));
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
  print_out("mkc run uses {} by default\n", f.has_gpu ? "the GPU" : "the emulator");
}

void print_json(const Findings& f) {
  nlohmann::ordered_json assemblers = nlohmann::ordered_json::array();
  for (const Findings::Candidate& c : f.assemblers)
    assemblers.push_back({{"path", c.path}, {"origin", c.origin}, {"state", c.state}});
  const nlohmann::ordered_json out{{"version", version()},
                                   {"commit", commit()},
                                   {"llvm", llvm_version()},
                                   {"targets", target_names()},
                                   {"machines", machine_names()},
                                   {"assemblers", assemblers},
                                   {"looked_at", f.looked_at},
                                   {"cache", f.cache},
                                   {"gpu", f.gpu},
                                   {"default_device", f.has_gpu ? "cuda" : "emulator"}};
  print_out("{}\n", out.dump(1));
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("doctor", "what mkc finds on this machine, and what is missing");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print JSON");
  command->callback([json, &action] {
    action = [json]() -> Status {
      (*json ? print_json : print_text)(look());
      return {};
    };
  });
}

}  // namespace mkc
