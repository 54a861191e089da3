#include "tools/artefact.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

#include "codegen/nvptx.h"
#include "codegen/plan.h"
#include "codegen/shared_object.h"
#include "frontend/quantization.h"
#include "ir/print.h"
#include "runtime/artefact/seal.h"
#include "tools/build_ids.h"
#include "tools/certificate.h"
#include "tools/copies.h"
#include "tools/output.h"
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

// Returns the name of a model's artefact in the cache, a hash of everything that it and its summary depend
// on. Returns "" if the running program has no build id, or a text cannot be read.
std::string key_of(const Compilation& c, const std::string& assembler, const char* suffix) {
  const std::string program = build_ids();
  const std::string modelopt = c.request.checkpoint + "/" + kModeloptConfig;
  const Result<Source> quantized = mkrt::is_absent(modelopt) ? Source{} : read_source(modelopt);
  if (program.empty() || !quantized.ok()) return "";
  std::string text = fmt::format("{}{}\n{}", program, assembler, resolved_yaml(c.request));
  text += fmt::format("{}\n{}\n{}\n{}\n", c.request.config.source.text, quantized.value().text,
                      c.request.family.document.source.text, c.machine.json);
  text += fmt::format("ends {} begins {}\n", fmt::join(c.generation.end_ids, ","), c.generation.begin_id);
  text += fmt::format("{} {} {} {}\n", mode_name(c.mode), c.keep_activations, c.balance_grids, c.quick);
  text += fmt::format("without {}\n", fmt::join(c.without, ","));
  if (c.search) text += fmt::format("search {} {}\n", c.search->seconds, c.search->evaluations);
  if (c.checkpoint)
    for (const mkrt::StoredTensor& t : c.checkpoint->tensors)
      text += fmt::format("{} {} {} {}\n", t.name, t.dtype, fmt::join(t.shape, ","), t.file);
  if (c.checkpoint) text += stamps_of_copies(c.request, *c.checkpoint);
  return mkrt::hash_hex(text) + suffix;
}

}  // namespace

const char* version() {
  return MKC_VERSION;
}

std::string version_text() {
  return *commit() ? fmt::format("mkc {} ({})", version(), commit()) : fmt::format("mkc {}", version());
}

ModelIdentity identify(const Compilation& c, const Engines& engines) {
  ModelIdentity identity;
  identity.engines = engines;
  identity.mkc_version = version();
  identity.family = c.request.family.name;
  identity.config_hash = mkrt::hash_hex(c.request.config.source.text);
  identity.schedule_hash = mkrt::hash_hex(print(c.schedule()));
  identity.target = c.request.target;
  identity.mode = c.mode;
  identity.without = c.without;
  identity.eos_ids = c.generation.end_ids;
  identity.bos_id = c.generation.begin_id;
  for (DeclaredCopy& copy : copies_of(c.request))
    identity.copies.push_back({std::move(copy.name), std::move(copy.of), std::move(copy.reason)});
  return identity;
}

mkrt::Artefact describe_for_emulator(const Compilation& c) {
  mkrt::Artefact artefact;
  artefact.manifest = describe(c.schedule(), identify(c));
  artefact.manifest.certificate = certify(c);
  artefact.plan = make_plan(c.schedule(), find_kinds(c.schedule(), c.mode), c.mode);
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

namespace {

// Returns target_of(), which must be a processor or must not be one.
Result<Target> target_of_kind(const Compilation& c, bool processor) {
  Result<Target> target = target_of(c);
  if (!target.ok() || is_processor(target.value()) == processor) return target;
  std::vector<std::string> fitting;
  for (const Target& other : targets())
    if (is_processor(other) == processor) fitting.push_back(other.name);
  return Error{fmt::format("--target: error: found {}, expected one of a {}: {}", target.value().name,
                           processor ? "processor" : "GPU", fmt::join(fitting, ", "))};
}

}  // namespace

Result<Target> processor_target_of(const Compilation& c) {
  return target_of_kind(c, true);
}

GpuBuild describe_build(const Compilation& c, const Engines& engines) {
  GpuBuild build;
  build.manifest = describe(c.schedule(), identify(c, engines));
  build.plan = make_plan(c.schedule(), find_kinds(c.schedule(), c.mode), c.mode, engines);
  return build;
}

Result<GpuBuild> build_ptx(Compilation& c) {
  const Result<Target> target = target_of_kind(c, false);
  if (!target.ok()) return target.error();
  const Timer timer(c, "ptx");
  GpuBuild build = describe_build(c, target.value().engines);
  build.ptx = make_ptx(c.schedule(), c.mode, build.plan, target.value());
  return build;
}

std::string finish_ptx(const Compilation& c, GpuBuild build) {
  mkrt::Artefact artefact{std::move(build.manifest), std::move(build.plan), {}};
  artefact.manifest.certificate = certify(c);
  mkrt::seal(artefact);
  return add_manifest(std::move(build.ptx), artefact.manifest);
}

namespace {

// Code makes the unsealed bytes of an artefact beside the proof, and then describes them in the summary.
struct Code {
  std::function<Result<std::vector<std::byte>>(GpuBuild& build)> make;
  std::function<void(nlohmann::json& summary, const std::vector<std::byte>& bytes)> describe;
};

Result<BuiltCubin> build(Compilation& c, const std::string& assembler, const char* suffix, const Cache& cache,
                         const PassObserver& observer, const Code& code) {
  std::string key;
  {
    const Timer timer(c, "cache");
    key = cache.folder.empty() ? "" : key_of(c, assembler, suffix);
    if (std::optional<Kept> kept = find_cached(cache, key))
      return BuiltCubin{std::move(kept->bytes), std::move(kept->summary), true};
  }
  GpuBuild build;
  std::vector<std::byte> bytes;
  const auto make = [&]() -> Status {
    Result<std::vector<std::byte>> made = code.make(build);
    if (!made.ok()) return made.error();
    bytes = std::move(made.value());
    return {};
  };
  if (Status status = run_passes(c, "", observer, make); !status.ok()) return status.error();
  build.manifest.certificate = certify(c);
  nlohmann::json summary = summarise(c, build);
  code.describe(summary, bytes);
  mkrt::Result<std::vector<std::byte>> sealed = mkrt::seal_cubin(std::move(bytes), build.manifest);
  if (!sealed.ok()) return sealed.error();
  Kept kept{std::move(sealed.value()), json_text(summary)};
  keep_cached(cache, key, kept);
  return BuiltCubin{std::move(kept.bytes), std::move(kept.summary)};
}

}  // namespace

Result<BuiltCubin> build_cubin(Compilation& c, const Assembler& assembler, const Cache& cache,
                               const PassObserver& observer) {
  Cubin cubin;
  Code code;
  code.make = [&](GpuBuild& build) -> Result<std::vector<std::byte>> {
    Result<GpuBuild> made = build_ptx(c);
    if (!made.ok()) return made.error();
    build = std::move(made.value());
    const Timer timer(c, "assemble");
    Result<Cubin> assembled =
        assembler.assemble(add_manifest(build.ptx, build.manifest), find_target(c.request.target).value());
    if (!assembled.ok()) return assembled.error();
    cubin = std::move(assembled.value());
    return cubin.bytes;
  };
  code.describe = [&](nlohmann::json& summary, const std::vector<std::byte>&) {
    add_cubin(summary, cubin, assembler);
  };
  return build(c, assembler.name(), ".cubin", cache, observer, code);
}

Result<BuiltCubin> build_shared_object(Compilation& c, const Cache& cache, const PassObserver& observer) {
  const Result<Target> target = processor_target_of(c);
  if (!target.ok()) return target.error();
  Code code;
  code.make = [&](GpuBuild& build) -> Result<std::vector<std::byte>> {
    std::vector<std::byte> object;
    build = describe_build(c, target.value().engines);
    {
      const Timer timer(c, "machine code");
      object = make_processor_object(c.schedule(), c.mode, target.value(), c.quick);
    }
    const Timer timer(c, "link");
    return link_processor_object(object, build.plan, build.manifest, target.value(), c.quick);
  };
  code.describe = [](nlohmann::json& summary, const std::vector<std::byte>& bytes) {
    summary["code_bytes"] = bytes.size();
  };
  return build(c, "lld", ".so", cache, observer, code);
}

}  // namespace mkc
