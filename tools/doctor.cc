#include <fmt/format.h>

#include "codegen/assembler.h"
#include "codegen/cache.h"
#include "codegen/nvptx.h"
#include "runtime/device.h"
#include "tools/artefact.h"
#include "tools/commands.h"

namespace mkc {
namespace {

Status doctor() {
  fmt::print("mkc {}, LLVM {}\n\n", version(), llvm_version());
  fmt::print("Targets:");
  for (const Target& target : targets()) fmt::print(" {}", target.name);
  fmt::print("\nMachines:");
  for (const std::string& machine : machine_names()) fmt::print(" {}", machine);

  fmt::print("\n\nAssemblers, in order of preference:\n");
  bool usable = false;
  const AssemblerSearch search = search_assemblers("");
  for (const AssemblerCandidate& c : search.found) {
    const Result<std::unique_ptr<Assembler>> opened = open_assembler(c.path);
    const std::string state = !opened.ok() ? opened.error().message : usable ? "usable" : "used";
    fmt::print("  {} ({}): {}\n", c.path, c.origin, state);
    usable |= opened.ok();
  }
  if (!usable)
    fmt::print(
        "  none is usable: mkc writes PTX, not cubins. Install the CUDA toolkit 12.8 or newer, or let\n"
        "  tools/fetch-assembler put NVIDIA's package from the Python index beside mkc, or name\n"
        "  libnvJitLink.so or ptxas by --assembler or MKC_ASSEMBLER.\n");

  fmt::print("Looked for them at:\n");
  for (const std::string& place : search.looked_at) fmt::print("  {}\n", place);

  const Cache cache = default_cache();
  fmt::print("\nCache: {}\n", cache.folder.empty() ? "off" : cache.folder);
  const mkrt::Result<std::unique_ptr<mkrt::Device>> gpu = mkrt::open_cuda();
  fmt::print("GPU, by libcuda.so.1 where the dynamic loader finds it: {}\n",
             gpu.ok() ? gpu.value()->name() : gpu.error().message);
  fmt::print("mkc run uses {} by default\n", gpu.ok() ? "the GPU" : "the emulator");
  return {};
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("doctor", "what mkc finds on this machine, and what is missing");
  command->callback([&action] { action = doctor; });
}

}  // namespace mkc
