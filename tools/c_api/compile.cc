#include "codegen/cache.h"
#include "tools/artefact.h"
#include "tools/c_api/guard.h"
#include "tools/c_api/mkc.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/native.h"
#include "tools/parse_arguments.h"

namespace mkc {
namespace {

// EmulatedKernel is what a mkc_kernel points to. `view` is the first member, so that its address is the
// kernel's.
struct EmulatedKernel {
  mkc_kernel view{};
  HostArtefact host;
  std::string manifest, checkpoint;
};

// Reads MODEL and its options. Throws CLI::ParseError.
ModelRequest parse_model(int count, const char* const* arguments) {
  ModelRequest request;
  CLI::App app("", "mkc");
  add_model_options(app, request);
  add_mode_option(app, request.mode);
  app.add_flag_callback("--trace", [&request] { request.mode = Mode::kTraced; });
  app.add_flag("--keep-activations", request.keep_activations);
  std::vector<const char*> argv{"mkc"};
  argv.insert(argv.end(), arguments, arguments + count);
  parse_arguments(app, static_cast<int>(argv.size()), argv.data());
  if (!request.options.target) request.options.target = kEmulator;
  if (!request.options.batch_invariant) request.options.batch_invariant = true;
  return request;
}

Result<std::unique_ptr<EmulatedKernel>> compile(const ModelRequest& request) {
  MKC_TRY(c, open_model(request, true));
  MKC_TRY_STATUS(run_passes(c));
  HostOptions options;
  options.cache = default_cache();
  MKC_TRY(host, build_for_emulator(c, options));
  auto kernel = std::make_unique<EmulatedKernel>();
  kernel->host = std::move(host);
  kernel->manifest = mkrt::to_json(kernel->host.artefact.manifest);
  kernel->checkpoint = c.request.checkpoint;
  return kernel;
}

void point_to_members(EmulatedKernel& kernel) {
  const mkrt::StepKernels& entries = kernel.host.kernel.entries;
  mkc_kernel& view = kernel.view;
  view.size = sizeof(view);
  view.entry = reinterpret_cast<const void*>(entries.step);
  view.kernels = reinterpret_cast<const void* const*>(entries.grids.data());
  view.kernel_count = static_cast<uint32_t>(entries.grids.size());
  view.pack = reinterpret_cast<const void*>(entries.pack);
  view.manifest = kernel.manifest.data();
  view.manifest_bytes = kernel.manifest.size();
  view.plan = kernel.host.artefact.plan.data();
  view.plan_bytes = kernel.host.artefact.plan.size();
  view.checkpoint = kernel.checkpoint.c_str();
}

}  // namespace
}  // namespace mkc

const char* mkc_error(void) {
  return mkc::last_error.c_str();
}

int mkc_command(int argc, char** argv) {
  return mkc::run_main(argc, argv);
}

const mkc_kernel* mkc_compile_for_emulator(int count, const char* const* arguments) {
  return mkc::guarded(
      [&]() -> const mkc_kernel* {
        if (mkc::missing(arguments, "arguments")) return nullptr;
        auto kernel = mkc::compile(mkc::parse_model(count, arguments));
        if (!kernel.ok()) return mkc::keep_error(kernel.error().message);
        mkc::point_to_members(*kernel.value());
        return &kernel.value().release()->view;
      },
      nullptr);
}

void mkc_free_kernel(const mkc_kernel* kernel) {
  delete reinterpret_cast<const mkc::EmulatedKernel*>(kernel);
}
