// A kernel for the emulator, compiled in the process that loads this library beside the C interface: what
// python_mkrt_test.py steps through.
#include <deque>

#include "tools/artefact.h"

extern "C" struct EmulatedKernel {
  const void* entry;
  const char* manifest;
  size_t manifest_bytes;
  const void* plan;
  size_t plan_bytes;
};

// The model of a checkpoint; it is kept until the process ends. Nonzero: it cannot be compiled.
extern "C" __attribute__((visibility("default"))) int emulated_kernel(const char* directory,
                                                                      EmulatedKernel* out) {
  struct Kept {
    mkc::HostArtefact host;
    std::string manifest;
  };
  static std::deque<Kept> kept;
  mkc::ModelRequest request{directory, {}, ""};
  request.options.target = "emulator";
  mkc::Result<mkc::Compilation> c = mkc::open_model(request, true);
  if (!c.ok() || !mkc::run_passes(c.value()).ok()) return 1;
  mkc::Result<mkc::HostArtefact> host = mkc::build_for_emulator(c.value());
  if (!host.ok()) return 1;
  Kept& k = kept.emplace_back(std::move(host.value()), "");
  k.manifest = mkrt::to_json(k.host.artefact.manifest);
  *out = {reinterpret_cast<const void*>(k.host.kernel.entries.step), k.manifest.data(), k.manifest.size(),
          k.host.artefact.plan.data(), k.host.artefact.plan.size()};
  return 0;
}
