// This library compiles kernels for the emulator in the process that loads it. The C interface is linked into
// it. python_mkrt_test.py steps through these kernels.
#include <deque>

#include "tools/artefact.h"

extern "C" struct EmulatedKernel {
  const void* entry;           // mk_kernel, or null if grids have kernels of their own
  const void* const* kernels;  // kernels of grids, by kind
  uint32_t kernel_count;
  const void* pack;
  const char* manifest;
  size_t manifest_bytes;
  const void* plan;
  size_t plan_bytes;
};

// Compiles a checkpoint in a mode, the number of an mkc::Mode. `keep_activations` gives each activation
// memory of its own. The kernel is kept until the process ends. A nonzero result says that the model cannot
// be compiled.
extern "C" __attribute__((visibility("default"))) int emulated_kernel(const char* directory, int mode,
                                                                      int keep_activations,
                                                                      EmulatedKernel* out) {
  struct Kept {
    mkc::HostArtefact host;
    std::string manifest;
  };
  static std::deque<Kept> kept;
  mkc::ModelRequest request{directory, {}, ""};
  request.options.target = "emulator";
  request.keep_activations = keep_activations != 0;
  request.mode = static_cast<mkc::Mode>(mode);
  mkc::Result<mkc::Compilation> c = mkc::open_model(request, true);
  if (!c.ok() || !mkc::run_passes(c.value()).ok()) return 1;
  mkc::Result<mkc::HostArtefact> host = mkc::build_for_emulator(c.value());
  if (!host.ok()) return 1;
  Kept& k = kept.emplace_back(std::move(host.value()), "");
  k.manifest = mkrt::to_json(k.host.artefact.manifest);
  const mkrt::StepKernels& entries = k.host.kernel.entries;
  *out = {reinterpret_cast<const void*>(entries.step),
          reinterpret_cast<const void* const*>(entries.grids.data()),
          static_cast<uint32_t>(entries.grids.size()),
          reinterpret_cast<const void*>(entries.pack),
          k.manifest.data(),
          k.manifest.size(),
          k.host.artefact.plan.data(),
          k.host.artefact.plan.size()};
  return 0;
}
