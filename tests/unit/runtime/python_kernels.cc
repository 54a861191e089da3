// This library compiles kernels in the process that loads it. The C interface is linked into it.
// python_mkrt_test.py steps through these kernels.
#include <deque>

#include "tools/artefact.h"
#include "tools/native.h"

extern "C" struct CompiledKernel {
  const void* entry;           // mk_kernel; null for the processor, and if grids have kernels of their own
  const void* const* kernels;  // kernels of grids, by kind
  uint32_t kernel_count;
  const void* pack;
  const char* manifest;
  size_t manifest_bytes;
  const void* plan;
  size_t plan_bytes;
  const void* image;  // the shared object for the processor
  size_t image_bytes;
};

namespace {

mkc::Result<mkc::HostArtefact> build(mkc::Compilation& c, bool processor) {
  if (!processor) {
    if (mkc::Status status = mkc::run_passes(c); !status.ok()) return status.error();
    return mkc::build_for_emulator(c);
  }
  c.quick = true;
  const mkc::Result<mkc::BuiltCubin> object = mkc::build_shared_object(c, {});
  if (!object.ok()) return object.error();
  mkrt::Result<mkrt::Artefact> artefact = mkrt::read_artefact(object.value().bytes, "compiled");
  if (!artefact.ok()) return artefact.error();
  mkc::HostArtefact host;
  host.artefact = std::move(artefact.value());
  return host;
}

}  // namespace

// Compiles a checkpoint in a mode, the number of an mkc::Mode, for the processor or the emulator.
// `keep_activations` gives each activation memory of its own. The kernel is kept until the process ends. A
// nonzero result says that the model cannot be compiled.
extern "C" __attribute__((visibility("default"))) int compiled_kernel(const char* directory, int processor,
                                                                      int mode, int keep_activations,
                                                                      CompiledKernel* out) {
  struct Kept {
    mkc::HostArtefact host;
    std::string manifest;
  };
  static std::deque<Kept> kept;
  mkc::ModelRequest request{directory, {}, ""};
  request.options.target = processor != 0 ? mkc::kThisProcessor : "emulator";
  request.keep_activations = keep_activations != 0;
  request.mode = static_cast<mkc::Mode>(mode);
  mkc::Result<mkc::Compilation> c = mkc::open_model(request, true);
  if (!c.ok()) return 1;
  mkc::Result<mkc::HostArtefact> host = build(c.value(), processor != 0);
  if (!host.ok()) return 1;
  Kept& k = kept.emplace_back(std::move(host.value()), "");
  const mkrt::Artefact& artefact = k.host.artefact;
  k.manifest = mkrt::to_json(artefact.manifest);
  const mkrt::StepKernels& entries = k.host.kernel.entries;
  *out = {reinterpret_cast<const void*>(entries.step),
          reinterpret_cast<const void* const*>(entries.grids.data()),
          static_cast<uint32_t>(entries.grids.size()),
          reinterpret_cast<const void*>(entries.pack),
          k.manifest.data(),
          k.manifest.size(),
          artefact.plan.data(),
          artefact.plan.size(),
          artefact.image.data(),
          artefact.image.size()};
  return 0;
}
