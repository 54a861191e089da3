#include "tools/passes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "codegen/lists.h"
#include "codegen/targets.h"
#include "frontend/quantization.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "runtime/base/file.h"
#include "runtime/device/container_limits.h"
#include "scheduler/events/events.h"
#include "scheduler/place/place.h"
#include "scheduler/search/beside.h"
#include "scheduler/tiling/codes.h"
#include "scheduler/tiling/fuse.h"
#include "scheduler/tiling/split.h"
#include "tools/model_path.h"
#include "tools/native.h"

namespace mkc {
namespace {

// Returns the dtype of a type of weights that safetensors calls so, or of indices.
std::optional<DType> dtype_of(std::string_view stored) {
  if (stored == "I32") return DType::i32;
  if (stored == "F8_E4M3") return DType::e4m3;
  for (const mkrt::WeightType type : mkrt::kWeightTypes)
    if (const mkrt::WeightFormat format = mkrt::weight_format(type);
        !format.coded() && format.stored == stored)
      return static_cast<DType>(type);
  return {};
}

// Returns the targets whose default machine multiplies 8-bit floats, as people list them.
std::string fp8_targets() {
  std::vector<std::string> names;
  for (const Target& target : targets())
    if (const Result<Machine> machine = machine_for_target(target.name);
        machine.ok() && machine.value().multiplies_fp8())
      names.push_back(target.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// Stores the value in the compilation, or returns the error.
template <class T>
Status take_module(Result<T> value, Compilation& c) {
  if (!value.ok()) return value.error();
  c.module = std::move(value.value());
  return {};
}

Status make_ops(Compilation& c) {
  return take_module(op_graph_of(c), c);
}

uint32_t workers_of(const Compilation& c) {
  return c.request.workers ? static_cast<uint32_t>(*c.request.workers) : c.machine.workers;
}

// Returns the error of a request for 8-bit activations.
Error fp8_error(const CompileRequest& request, const std::string& why) {
  const std::string message = "activations are fp8, " + why;
  return setting_error(request.places, "activations", message, "--activations: error: " + message);
}

bool adds_codes(const Compilation& c) {
  return c.request.activations == Activations::kFp8 && c.machine.has_quantize_grids();
}

// Returns the number of tokens from which warpgroups multiply codes, for add_codes(). Without a request it is
// the least: bits of such steps depend on the number of tokens anyway, and warpgroups are faster.
uint32_t codes_from(const Compilation& c) {
  return c.request.wgmma_from ? 0 : kMinWgmmaFrom;
}

bool some_can_read_codes(const Compilation& c) {
  const auto& program = std::get<TaskProgram>(c.module);
  return std::ranges::any_of(
      program.grids, [&](const TaskGrid& grid) { return can_read_codes(program, grid, codes_from(c)); });
}

// Has products of E4M3 weights multiply 8-bit floats, as the user asks for. Quantize grids are added when
// products have been split.
Status ask_for_fp8(Compilation& c) {
  auto& program = std::get<TaskProgram>(c.module);
  if (!std::ranges::any_of(program.grids, [&](const TaskGrid& g) { return multiplies_e4m3(program, g); }))
    return fp8_error(c.request, "but no product has weights of E4M3");
  const bool by_grids = c.machine.has_quantize_grids();
  const int64_t from = by_grids ? c.request.wgmma_from.value_or(kMinWgmmaFrom) : kMinFp8From;
  if (c.request.max_tokens < from)
    return fp8_error(c.request, fmt::format("but steps have at most {} tokens, expected {} or more",
                                            c.request.max_tokens, from));
  if (!by_grids) set_fp8_from(program, kMinFp8From);
  if (!by_grids || some_can_read_codes(c)) return {};
  return fp8_error(c.request, "but warpgroups multiply no product with weights of E4M3");
}

// Tells whether the search may choose 8-bit activations: the checkpoint is made for them.
Result<bool> may_use_fp8(const Compilation& c) {
  if (c.request.activations != Activations::kAuto || c.request.batch_invariant || !c.machine.multiplies_fp8())
    return false;
  if (c.machine.has_quantize_grids() && !some_can_read_codes(c)) return false;
  MKC_TRY(quantized, read_quantization(c.request.config, c.request.checkpoint));
  return quantized && quantized->fp8_activations;
}

Status make_grids(Compilation& c) {
  const int64_t from = c.request.batch_invariant ? 0 : c.request.wgmma_from.value_or(kDefaultWgmmaFrom);
  const FuseOptions options{workers_of(c), static_cast<uint32_t>(from)};
  if (Status s = take_module(fuse(std::get<OpGraph>(c.module), options, &c.unfused), c); !s.ok()) return s;
  return c.request.activations == Activations::kFp8 ? ask_for_fp8(c) : Status();
}

EventCosts event_costs(const Compilation& c) {
  return {c.machine.task_ns, c.machine.notify_ns, workers_of(c)};
}

// Searches for settings and adds them to the request, as if the user had asked for them.
Status find_settings(Compilation& c) {
  CompileRequest& request = c.request;
  if (c.machine.is_processor()) {  // its results must not depend on the number of its workers
    if (request.scheduler == Scheduler::kAuto) request.scheduler = Scheduler::kStatic;
    return {};
  }
  MKC_TRY(fp8, may_use_fp8(c));
  const SearchOptions options{event_costs(c),
                              request.scheduler,
                              {request.wgmma_from.has_value(), request.splits, request.placements,
                               static_cast<uint32_t>(request.ring.value_or(0)), fp8, adds_codes(c)},
                              c.search};
  Result<SearchReport> report = search(std::get<TaskProgram>(c.module), c.machine, options);
  if (!report.ok()) return report.error();
  c.found = std::move(report.value());
  std::ranges::copy(split_rules(c.found.found), std::back_inserter(request.splits));
  std::ranges::copy(placement_rules(c.found.found), std::back_inserter(request.placements));
  if (request.scheduler == Scheduler::kAuto) request.scheduler = Scheduler::kStatic;
  if (c.found.found.wgmma_from != 0) request.wgmma_from = c.found.found.wgmma_from;
  if (c.found.found.fp8_from != 0) request.activations = Activations::kFp8;
  if (c.found.found.ring != 0) request.ring = c.found.found.ring;
  return {};
}

Status make_splits(Compilation& c) {
  auto& program = std::get<TaskProgram>(c.module);
  if (c.found.found.wgmma_from != 0) set_wgmma_from(program, c.found.found.wgmma_from);
  const bool codes = adds_codes(c);
  if (c.found.found.fp8_from != 0 && !codes) set_fp8_from(program, c.found.found.fp8_from);
  Result<TaskProgram> split = split_as_asked(std::move(program), c.request.splits);
  if (split.ok() && codes) split = add_codes(std::move(split.value()), codes_from(c));
  return take_module(std::move(split), c);
}

Status make_events(Compilation& c) {
  return take_module(derive_events(std::get<TaskProgram>(c.module), event_costs(c), &c.event_reasons), c);
}

Status make_placement(Compilation& c) {
  if (Status s = check_lists(std::get<TaskProgram>(c.module)); !s.ok()) return s;
  const PlaceOptions options{workers_of(c),        c.balance_grids,
                             c.request.scheduler,  c.keep_activations,
                             c.request.placements, static_cast<uint32_t>(c.request.ring.value_or(0))};
  Status status = take_module(place(std::move(std::get<TaskProgram>(c.module)), c.machine, options), c);
  if (status.ok()) add_reasons(c.found, std::get<Schedule>(c.module));
  return status;
}

Status make_proof(Compilation& c) {
  Result<ProofReport> report = prove(c.schedule());
  if (!report.ok()) MKC_BUG("the schedule cannot be proved: " + report.error().message);
  c.proof = report.value();
  return {};
}

// Verifies the module. Returns all errors as one if the pass is the first, and reports a bug for other
// passes.
Status check_module(const Pass& pass, const Compilation& c) {
  const std::vector<Error> errors = verify(c.module);
  if (errors.empty()) return {};
  std::string text;
  for (const Error& e : errors) text += (text.empty() ? "" : "\n") + e.message;
  if (&pass == &passes().front()) return Error{text};
  MKC_BUG(fmt::format("pass {} made an invalid module:\n{}\n{}", pass.name, text,
                      std::visit([](const auto& module) { return print(module); }, c.module)));
}

Status run_pass(const Pass& pass, Compilation& c, PassTime& time) {
  using PassClock = std::chrono::steady_clock;
  const PassClock::time_point begin = PassClock::now();
  Status status = pass.run(c);
  if (status.ok() && *pass.makes) status = check_module(pass, c);
  time.ms = std::chrono::duration<double, std::milli>(PassClock::now() - begin).count();
  return status;
}

}  // namespace

// Tensors of other types may be ignored by the family, so they are reported by name only where they are used.
std::vector<CheckpointTensor> tensors_of(const mkrt::Checkpoint& checkpoint) {
  std::vector<CheckpointTensor> tensors;
  for (const mkrt::StoredTensor& t : checkpoint.tensors) {
    const std::optional<DType> dtype = dtype_of(t.dtype);
    tensors.push_back({t.name, dtype.value_or(DType::i32), t.shape, t.file, dtype ? "" : t.dtype, t.bytes});
  }
  return tensors;
}

Result<OpGraph> op_graph_of(const Compilation& c) {
  const std::vector<CheckpointTensor> tensors =
      c.checkpoint ? tensors_of(*c.checkpoint) : std::vector<CheckpointTensor>();
  return build_op_graph(c.request, tensors);
}

std::span<const Pass> passes() {
  static constexpr Pass kPasses[] = {
      {"ops", "ops", "the family's ops with layers unrolled, checkpoint tensors matched", make_ops},
      {"fuse", "tasks", "ops to task grids with the regions they read and write", make_grids},
      {"search", "", "settings that simulated steps are shorter with, where nobody asks for others",
       find_settings},
      {"split", "tasks", "products split along their columns; rows rounded for warpgroups; searched settings",
       make_splits},
      {"events", "tasks", "event tensors derived from the regions, coarsened by cost", make_events},
      {"place", "schedule", "grids to workers, tensors to memory, events to counters", make_placement},
      {"prove", "", "no deadlock, counts that match, reads and overwrites in order", make_proof},
  };
  return kPasses;
}

std::string search_text(const Compilation& c) {
  return to_string(c.found) + (c.found.figures.empty() ? "" : "; schedule: " + schedule_yaml(c.request));
}

Status run_passes(Compilation& c, const std::string& last, const PassObserver& observer,
                  const std::function<Status()>& beside) {
  for (const Pass& pass : passes()) {
    PassTime time{pass.name};
    time.beside = beside && &pass == &passes().back();
    const auto work = [&] { return run_pass(pass, c, time); };
    std::future<Status> run = time.beside ? start_beside(work) : std::async(std::launch::deferred, work);
    if (time.beside)
      if (Status status = beside(); !status.ok()) return status;
    if (Status status = run.get(); !status.ok()) return status;
    c.times.push_back(time);
    if (observer) MKC_TRY_STATUS(observer(pass, c));
    if (pass.name == last) break;
  }
  return {};
}

namespace {

// Checks the settings whose bounds depend on the machine.
Status check_for_machine(const CompileRequest& request, const Machine& machine) {
  const auto check = [&](const char* key, const char* flag, std::optional<int64_t> value, int64_t min,
                         int64_t max, const char* of) -> Status {
    if (!value || (*value >= min && *value <= max)) return {};
    return setting_error(request.places, key, flag, *value,
                         fmt::format("{} to {}, the {} of machine {}", min, max, of, machine.name));
  };
  if (Status s = check("workers", "--workers", request.workers, 1, max_workers(machine), "workers"); !s.ok())
    return s;
  if (request.activations == Activations::kFp8 && request.batch_invariant)
    return fp8_error(request, "but batch_invariant asks for the same bits in steps of fewer tokens");
  if (request.activations == Activations::kFp8 && !machine.multiplies_fp8())
    return fp8_error(request,
                     fmt::format("but machine {} of target {} has no matrix instructions of 8-bit floats, "
                                 "expected one of {}",
                                 machine.name, machine.target, fp8_targets()));
  return check("ring", "ring", request.ring, kMinRing, std::min(machine.ring_stages, kMaxRing), "stages");
}

}  // namespace

Result<Compilation> open_model(const ModelRequest& request, bool weights) {
  if (request.ignore_measured && !request.machine.empty() && request.machine != kNative)
    return Error{
        fmt::format("--ignore-measured: error: --machine {} takes the place of what was measured "
                    "here, expected one of the two",
                    request.machine)};
  const Result<std::string> model = find_model(request.model);
  if (!model.ok()) return model.error();
  Compilation c;
  ModelOptions options = request.options;
  std::optional<NativeMachine> machine;
  if (options.target == kNative || request.machine == kNative) {
    Result<NativeMachine> native = native_machine(request.ignore_measured);
    if (!native.ok()) return native.error();
    if (options.target == kNative) c.driver = native.value().driver;
    if (options.target.value_or(kNative) == kNative) options.target = native.value().machine.target;
    if (request.machine.empty() || request.machine == kNative) machine = std::move(native.value());
  }
  if (options.target == kThisProcessor) {
    const Result<Target> target = target_of_processor();
    if (!target.ok())
      return Error{fmt::format("--target {}: error: {}", kThisProcessor, target.error().message)};
    options.target = target.value().name;
  }
  Result<CompileRequest> resolved = read_request(model.value(), options);
  if (!resolved.ok()) return resolved.error();
  c.request = std::move(resolved.value());
  Result<GenerationDefaults> generation = read_generation(c.request.checkpoint, c.request.config);
  if (!generation.ok()) return generation.error();
  c.generation = std::move(generation.value());
  if (!machine) {
    if (request.ignore_measured && !c.request.target.starts_with(kThisProcessor))
      return Error{fmt::format(
          "--ignore-measured: error: nothing measured goes into the machine of {}, expected --machine native",
          c.request.target)};
    Result<NativeMachine> named = machine_of(request.machine, c.request.target, request.ignore_measured);
    if (!named.ok()) return named.error();
    machine = std::move(named.value());
  }
  c.machine = std::move(machine->machine);
  c.machine_said = std::move(machine->said);
  if (c.machine.is_processor() && !c.request.workers) c.request.workers = mkrt::usable_threads();
  c.mode = request.mode;
  c.without = request.without;
  const Engines engines = without({c.machine.bulk_copy, c.machine.warpgroups}, c.without);
  c.machine.bulk_copy = engines.bulk_copy, c.machine.warpgroups = engines.warpgroups;
  c.keep_activations = request.keep_activations;
  c.search = request.search;
  for (const auto& [flag, given] :
       {std::pair("--without", !c.without.empty()), std::pair("-O3", c.search.has_value())})
    if (c.machine.is_processor() && given)
      return Error{fmt::format("{}: error: is for GPUs, found target {}", flag, c.request.target)};
  if (c.machine.target != c.request.target)
    return Error{fmt::format("machine {}: error: is of target {}, expected {}",
                             request.machine.empty() ? c.machine.name : request.machine, c.machine.target,
                             c.request.target)};
  if (Status status = check_for_machine(c.request, c.machine); !status.ok()) return status.error();
  const std::string& directory = c.request.checkpoint;
  if (weights || !mkrt::is_absent(directory + "/model.safetensors") ||
      !mkrt::is_absent(directory + "/model.safetensors.index.json")) {
    mkrt::Result<mkrt::Checkpoint> checkpoint = mkrt::open_checkpoint(directory);
    if (!checkpoint.ok()) return checkpoint.error();
    c.checkpoint = std::move(checkpoint.value());
  }
  return c;
}

}  // namespace mkc
