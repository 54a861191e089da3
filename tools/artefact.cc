#include "tools/artefact.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "codegen/nvptx.h"
#include "codegen/plan.h"
#include "ir/print.h"
#include "runtime/artefact/seal.h"
#include "tools/build_ids.h"
#include "tools/certificate.h"
#include "tools/summary.h"

namespace mkc {
namespace {

// Timer adds the time of its own life to the compilation's times, under the name `step`.
class Timer {
 public:
  Timer(Compilation& c, const char* step) : compilation_(c), step_(step) {}
  ~Timer() {
    const auto spent = std::chrono::steady_clock::now() - begin_;
    compilation_.times.push_back({step_, std::chrono::duration<double, std::milli>(spent).count()});
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  Compilation& compilation_;
  const char* step_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Returns the name of a model's cubin in the cache, a hash of everything that the cubin and its summary
// depend on. Returns "" if the running program has no build id.
std::string key_of(const Compilation& c, const Assembler& assembler) {
  const std::string program = build_ids();
  if (program.empty()) return "";
  std::string text = fmt::format("{}{}\n{}", program, assembler.name(), resolved_yaml(c.request));
  text += fmt::format("{}\n{}\n{}\n", c.request.config.source.text, c.request.family.document.source.text,
                      c.machine.json);
  text += fmt::format("ends {} begins {}\n", fmt::join(c.generation.end_ids, ","), c.generation.begin_id);
  text += fmt::format("{} {} {}\n", mode_name(c.mode), c.keep_activations, c.balance_grids);
  text += fmt::format("without {}\n", fmt::join(c.without, ","));
  if (c.search) text += fmt::format("search {} {}\n", c.search->seconds, c.search->evaluations);
  if (c.checkpoint)
    for (const mkrt::StoredTensor& t : c.checkpoint->tensors)
      text += fmt::format("{} {} {} {}\n", t.name, t.dtype, fmt::join(t.shape, ","), t.file);
  return mkrt::hash_hex(text) + ".cubin";
}

}  // namespace

const char* version() {
  return MKC_VERSION;
}

std::string version_text() {
  return *commit() ? fmt::format("mkc {} ({})", version(), commit()) : fmt::format("mkc {}", version());
}

ModelIdentity identify(const Compilation& c) {
  ModelIdentity identity;
  identity.mkc_version = version();
  identity.family = c.request.family.name;
  identity.config_hash = mkrt::hash_hex(c.request.config.source.text);
  identity.schedule_hash = mkrt::hash_hex(print(c.schedule()));
  identity.target = c.request.target;
  identity.mode = c.mode;
  identity.without = c.without;
  identity.eos_ids = c.generation.end_ids;
  identity.bos_id = c.generation.begin_id;
  return identity;
}

mkrt::Artefact describe_for_emulator(const Compilation& c) {
  mkrt::Artefact artefact;
  artefact.manifest = describe(c.schedule(), identify(c));
  artefact.manifest.certificate = certify(c);
  artefact.plan = make_plan(c.schedule(), find_kinds(c.schedule()), c.mode);
  mkrt::seal(artefact);
  return artefact;
}

Result<HostArtefact> build_for_emulator(Compilation& c, const HostOptions& options) {
  const Timer timer(c, "host code");
  HostArtefact host;
  host.artefact = describe_for_emulator(c);
  HostOptions of_mode = options;
  of_mode.mode = c.mode;
  of_mode.without = c.without;
  of_mode.program = build_ids();
  host.kernel = compile_for_host(c.schedule(), of_mode);
  return host;
}

Result<Target> target_of(const Compilation& c) {
  Result<Target> target = find_target(c.request.target);
  if (target.ok()) target.value().engines = without(target.value().engines, c.without);
  return target;
}

Result<GpuBuild> build_ptx(Compilation& c) {
  const Result<Target> target = target_of(c);
  if (!target.ok()) return target.error();
  const Timer timer(c, "ptx");
  GpuBuild build;
  build.manifest = describe(c.schedule(), identify(c));
  build.plan = make_plan(c.schedule(), find_kinds(c.schedule()), c.mode);
  build.ptx = make_ptx(c.schedule(), c.mode, build.plan, target.value());
  return build;
}

std::string finish_ptx(const Compilation& c, GpuBuild build) {
  mkrt::Artefact artefact{std::move(build.manifest), std::move(build.plan), {}};
  artefact.manifest.certificate = certify(c);
  mkrt::seal(artefact);
  return add_manifest(std::move(build.ptx), artefact.manifest);
}

Result<BuiltCubin> build_cubin(Compilation& c, const Assembler& assembler, const Cache& cache,
                               const PassObserver& observer) {
  std::string key;
  {
    const Timer timer(c, "cache");
    key = cache.folder.empty() ? "" : key_of(c, assembler);
    if (std::optional<Kept> kept = find_cached(cache, key))
      return BuiltCubin{std::move(kept->bytes), std::move(kept->summary), true};
  }
  GpuBuild build;
  Cubin cubin;
  const auto assemble = [&]() -> Status {
    Result<GpuBuild> made = build_ptx(c);
    if (!made.ok()) return made.error();
    build = std::move(made.value());
    const Timer timer(c, "assemble");
    Result<Cubin> assembled =
        assembler.assemble(add_manifest(build.ptx, build.manifest), find_target(c.request.target).value());
    if (!assembled.ok()) return assembled.error();
    cubin = std::move(assembled.value());
    return {};
  };
  if (Status status = run_passes(c, "", observer, assemble); !status.ok()) return status.error();
  build.manifest.certificate = certify(c);
  mkrt::Result<std::vector<std::byte>> sealed = mkrt::seal_cubin(std::move(cubin.bytes), build.manifest);
  if (!sealed.ok()) return sealed.error();
  cubin.bytes = std::move(sealed.value());
  nlohmann::json summary = summarise(c, build);
  add_cubin(summary, cubin, assembler);
  Kept kept{std::move(cubin.bytes), summary.dump()};
  keep_cached(cache, key, kept);
  return BuiltCubin{std::move(kept.bytes), std::move(kept.summary)};
}

}  // namespace mkc
