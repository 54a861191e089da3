// From a request to a proved schedule, by the one ordered list of passes.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/mode.h"
#include "frontend/generation.h"
#include "frontend/op_graph.h"
#include "ir/parse.h"
#include "runtime/artefact/safetensors.h"
#include "scheduler/machine/machine.h"
#include "scheduler/proof/prove.h"
#include "scheduler/search/search.h"

namespace mkc {

struct PassTime {
  std::string pass;
  double ms = 0;
  bool beside = false;  // on another thread than the others, at the same time
};

// A model on its way through the passes; each fills what it makes.
struct Compilation {
  CompileRequest request;
  GenerationDefaults generation;
  std::optional<mkrt::Checkpoint> checkpoint;  // absent: from config.json alone
  Machine machine;
  std::string machine_said;  // of a native machine: NativeMachine::said
  Mode mode = Mode::kMegakernel;
  std::vector<std::string> without;                      // parts of the device
  bool balance_grids = false, keep_activations = false;  // of PlaceOptions
  Module module;                                         // the level reached
  std::map<std::string, std::string> unfused;  // row grids by name: why no pattern of fusion holds them
  std::vector<std::string> event_reasons;      // by EventId: why its granularity
  std::optional<SearchBudget> search;          // of SearchOptions: -O3
  SearchReport found;                          // which the request asks for since
  ProofReport proof;
  std::vector<PassTime> times;  // of every pass, verification included

  const Schedule& schedule() const { return std::get<Schedule>(module); }
};

struct Pass {
  const char* name;
  const char* makes;  // "ops", "tasks" or "schedule"; "": it leaves the module as it is
  const char* does;
  Status (*run)(Compilation&);
};

// Every pass, in order.
std::span<const Pass> passes();

// What -O3 found, with the `schedule` of a model.yaml that asks for it; for people.
std::string search_text(const Compilation& compilation);

// Called after each pass, with the module verified.
using PassObserver = std::function<void(const Pass&, const Compilation&)>;

// Runs the passes up to and with `last` ("" for all), and the verifier after each that makes something. What
// the first pass makes may be invalid by the fault of a family file, and is then an error; a later pass that
// makes an invalid module is a bug. `beside` is called while the last of all passes, the proof, which changes
// nothing but the report, runs on another thread. Errors: those of the passes and of `beside`.
Status run_passes(Compilation& compilation, const std::string& last = "", const PassObserver& observer = {},
                  const std::function<Status()>& beside = {});

// What to compile, and for which machine.
struct ModelRequest {
  std::string model;     // a checkpoint directory or a model.yaml
  ModelOptions options;  // win over the model.yaml
  std::string machine;   // name or file; "native": the device; "": the target's default
  Mode mode = Mode::kMegakernel;
  bool keep_activations = false;         // of PlaceOptions
  std::optional<SearchBudget> search{};  // of SearchOptions
  bool ignore_measured = false;          // by mkc doctor, of a native machine
  std::vector<std::string> without{};    // parts of the device that the code goes without: parse_without()
};

// Reads request, machine and, if there are any or `weights` is set, the checkpoint's headers.
// A target or a machine "native" is that of the GPU that is there. Errors: those of find_model, read_request,
// read_generation, load_machine, native_machine and open_checkpoint; a machine of another target, settings
// out of its bounds.
Result<Compilation> open_model(const ModelRequest& request, bool weights);

}  // namespace mkc
