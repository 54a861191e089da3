#include "tools/run_load.h"

#include <fmt/format.h>
#include <unistd.h>

#include "frontend/source.h"
#include "runtime/device/device_facts.h"
#include "runtime/session/weights.h"
#include "scheduler/machine/cost.h"
#include "tools/native.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/room.h"

namespace mkc {
namespace {

constexpr uint32_t kQuickTokens = 200;            // new tokens of a text up to which HostOptions::quick pays
constexpr std::string_view kPlacePass = "place";  // the pass that makes a schedule

// Checks that the weights fit in the device's memory. A null device stands for the emulator, whose memory is
// that of this machine.
Status check_room(const RunArguments& a, const mkrt::Device* device, const mkrt::Checkpoint& checkpoint) {
  uint64_t bytes = 0;
  for (const mkrt::StoredTensor& t : checkpoint.tensors) bytes += t.bytes.size();
  const std::unique_ptr<mkrt::Device> emulator = device ? nullptr : mkrt::open_emulator({}, {});
  const mkrt::Device& of = device ? *device : *emulator;
  const RoomNeeded needed{.weights = bytes, .keeps_weights = keeps_weights(a)};
  const std::string fault = why_no_room_on(of, needed, mkrt::container_limits());
  return fault.empty() ? Status() : Status(Error{fmt::format("{}: error: {}", checkpoint.directory, fault)});
}

// Checks that the pages of --pages fit in memory together with weights and workspace, before code is made.
Status check_pages(const RunArguments& a, const Schedule& schedule, const mkrt::Device* device) {
  if (!device) return {};  // the emulator is opened later
  const std::string fault =
      why_no_room_on(*device,
                     {schedule.weight_bytes, schedule.workspace_bytes,
                      a.page_size * position_bytes(schedule.program), a.pages, keeps_weights(a)},
                     mkrt::container_limits());
  return fault.empty() ? Status() : Status(Error{"--pages: error: " + fault});
}

// Shows what a compilation does after each pass, and ends one whose cache has no room.
PassObserver observe_passes(const RunArguments& a, const Loaded& loaded, ProgressLine& progress) {
  progress.show("compiling");
  return [&, device = loaded.device.get()](const Pass& pass, const Compilation& now) -> Status {
    if (pass.name == kPlacePass && a.pages > 0) MKC_TRY_STATUS(check_pages(a, now.schedule(), device));
    const auto next = static_cast<size_t>(&pass - passes().data()) + 1;
    const bool is_last = next + 1 >= passes().size();  // code is made beside the last pass
    progress.show(is_last ? "compiling: code and proof"
                          : fmt::format("compiling: pass {} of {}, {}", next + 1, passes().size(),
                                        passes()[next].name));
    return {};
  };
}

Result<BuiltCubin> build_for_gpu(const RunArguments& a, Compilation& c, const PassObserver& observer) {
  // The cubin runs on this driver, also where --target names the GPU's target.
  if (c.driver == 0)
    if (const mkrt::Result<mkrt::DeviceFacts> facts = mkrt::ask_cuda(); facts.ok())
      c.driver = facts.value().driver;
  const Result<std::unique_ptr<Assembler>> assembler = find_assembler(a.assembler, c.driver);
  if (!assembler.ok()) return assembler.error();
  return build_cubin(c, *assembler.value(), default_cache(), observer);
}

// Tells whether the run is one text of few tokens.
bool is_short(const RunArguments& a) {
  return (a.prompt || a.prompt_ids) && a.max_new_tokens && *a.max_new_tokens <= kQuickTokens;
}

// Compiles for the emulator and opens it.
Status load_for_emulator(const RunArguments& a, Compilation& c, const PassObserver& observer,
                         Loaded& loaded) {
  if (Status status = run_passes(c, "", observer); !status.ok()) return status;
  HostOptions options;
  options.race = a.race;
  options.quick = a.race || is_short(a);
  options.cache = default_cache();
  Result<HostArtefact> host = build_for_emulator(c, options);
  if (!host.ok()) return host.error();
  loaded.artefact = std::move(host.value().artefact);
  loaded.kernel = std::move(host.value().kernel);
  mkrt::EmulatorDeviceOptions emulator;
  emulator.seed = a.emulator_seed;
  emulator.os_threads = a.emulator_threads;
  emulator.race = a.race;
  loaded.device =
      mkrt::open_emulator(loaded.kernel.entries, emulator, [sites = loaded.kernel.sites](uint32_t site) {
        return site < sites.size() ? sites[site] : std::string();
      });
  return {};
}

// Compiles for the processor or GPU that is already opened, or for the emulator, which is opened here.
Status compile_for(const RunArguments& a, Loaded& loaded) {
  ModelRequest request = a.request;
  const bool cpu = loaded.device && loaded.device->name() == "cpu";
  if (!loaded.device) {
    if (request.options.target.value_or(kEmulator) != kEmulator)
      return Error{fmt::format("--target: error: found {}, expected {}, the target of the device",
                               *request.options.target, kEmulator)};
    request.options.target = kEmulator;
  } else if (cpu) {
    if (!request.options.target) request.options.target = kThisProcessor;
    if (a.threads) request.options.workers = a.threads;
  } else if (!request.options.target) {
    request.options.target = kNative;
  }
  // Batch invariance gives a request equal results alone, in a batch, and in another call.
  if (!request.options.batch_invariant) request.options.batch_invariant = true;
  Result<Compilation> opened = open_model(request, true);
  if (!opened.ok()) return opened.error();
  Compilation& c = opened.value();
  loaded.directory = c.request.checkpoint;
  if (isatty(STDERR_FILENO)) print_err("{}", c.machine_said);
  if (Status status = check_room(a, loaded.device.get(), *c.checkpoint); !status.ok()) return status;
  ProgressLine progress;
  const PassObserver observer = observe_passes(a, loaded, progress);
  if (loaded.device) {
    const Result<BuiltCubin> built =
        cpu ? build_shared_object(c, default_cache(), observer) : build_for_gpu(a, c, observer);
    if (!built.ok()) return built.error();
    mkrt::Result<mkrt::Artefact> artefact = mkrt::read_artefact(built.value().bytes, "the compiled code");
    if (!artefact.ok()) return artefact.error();
    loaded.artefact = std::move(artefact.value());
  } else if (Status status = load_for_emulator(a, c, observer, loaded); !status.ok()) {
    return status;
  }
  loaded.checkpoint = std::move(*c.checkpoint);
  return {};
}

Status load_artefact(const RunArguments& a, Loaded& loaded) {
  mkrt::Result<mkrt::Artefact> artefact = mkrt::load_artefact(a.request.model, a.seal);
  if (!artefact.ok()) return artefact.error();
  mkrt::Result<mkrt::Checkpoint> checkpoint = mkrt::open_checkpoint(a.checkpoint);
  if (!checkpoint.ok()) return checkpoint.error();
  loaded.artefact = std::move(artefact.value());
  loaded.checkpoint = std::move(checkpoint.value());
  loaded.directory = a.checkpoint;
  // Shapes that do not match are refused before a device is opened, because they match on no device.
  return mkrt::check_weights(loaded.artefact.manifest, loaded.checkpoint);
}

// Opens the device that was asked for. `auto` is a GPU where there is one, else the processor. An artefact
// runs on the kind of device that it was compiled for. A null device stands for the emulator.
Result<std::unique_ptr<mkrt::Device>> open_device(const RunArguments& a, const Loaded& loaded) {
  const bool artefact = is_artefact(a.request.model), emulator = a.device == "emulator" || a.race;
  const bool for_processor = artefact && loaded.artefact.manifest.target.starts_with(kThisProcessor);
  const char* kind = for_processor ? "cpu" : "cuda";
  if (artefact && (emulator || (a.device != "auto" && a.device != kind)))
    return Error{fmt::format("{}: error: is for {}, it cannot run on device {}", a.request.model,
                             loaded.artefact.manifest.target, emulator ? "emulator" : a.device)};
  if (emulator) return std::unique_ptr<mkrt::Device>();
  if (a.device == "cpu" || for_processor) return mkrt::open_processor();
  mkrt::Result<std::unique_ptr<mkrt::Device>> gpu = mkrt::open_cuda();
  if (gpu.ok() || a.device == "cuda" || artefact) return gpu;
  return mkrt::open_processor();
}

}  // namespace

Result<Loaded> load(const RunArguments& a) {
  Loaded loaded;
  const bool artefact = is_artefact(a.request.model);
  if (artefact)
    if (Status status = load_artefact(a, loaded); !status.ok()) return status.error();
  if (artefact && a.request.mode == Mode::kTraced && !loaded.artefact.manifest.traced)
    return Error{
        fmt::format("{}: error: is not traced, expected a cubin of mkc compile --trace", a.request.model)};
  Result<std::unique_ptr<mkrt::Device>> device = open_device(a, loaded);
  if (!device.ok()) return device.error();
  loaded.device = std::move(device.value());
  if (artefact) {
    if (Status status = check_room(a, loaded.device.get(), loaded.checkpoint); !status.ok())
      return status.error();
  } else if (Status status = compile_for(a, loaded); !status.ok()) {
    return status.error();
  }
  const Result<Source> config = read_source(loaded.directory + "/config.json");
  if (!config.ok()) return config.error();
  loaded.config_hash = mkrt::hash_hex(config.value().text);
  return loaded;
}

bool keeps_weights(const RunArguments& a) {
  return a.keep_weights.value_or(kKeep) != kDoNotKeep && !default_cache().folder.empty();
}

}  // namespace mkc
