// A request becomes a proved schedule by this ordered list of passes.
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
  bool beside = false;  // the pass ran on a thread of its own, at the same time as others
};

// Compilation is a model in the passes. Each pass fills the members that it makes.
struct Compilation {
  CompileRequest request;
  GenerationDefaults generation;
  std::optional<mkrt::Checkpoint> checkpoint;  // absent: compiled from config.json alone
  Machine machine;
  std::string machine_said;  // NativeMachine::said of a native machine or a processor; "": neither
  uint32_t driver = 0;       // CUDA version of the driver that must load the cubin; 0: any may
  Mode mode = Mode::kMegakernel;
  std::vector<std::string> without;                      // target features that the code does not use
  bool balance_grids = false, keep_activations = false;  // PlaceOptions
  bool quick = false;                                    // of make_processor_object()
  Module module;                                         // IR of the level reached
  std::map<std::string, std::string> unfused;            // row grids by name: why no pattern holds them
  std::vector<std::string> event_reasons;                // by EventId: reason of its granularity
  std::optional<SearchBudget> search;                    // SearchOptions::budget, set by -O3
  SearchReport found;                                    // settings that the search added to the request
  ProofReport proof;
  std::vector<PassTime> times;  // time of every pass, verification included

  const Schedule& schedule() const { return std::get<Schedule>(module); }
};

struct Pass {
  const char* name;
  const char* makes;  // "ops", "tasks" or "schedule"; "": the pass does not change the module
  const char* does;
  Status (*run)(Compilation&);
};

// Returns all passes, in order.
std::span<const Pass> passes();

// Returns the checkpoint's tensors as the frontend takes them.
std::vector<CheckpointTensor> tensors_of(const mkrt::Checkpoint& checkpoint);

// Returns the op graph that the first pass makes of an opened model. Errors: those of build_op_graph.
Result<OpGraph> op_graph_of(const Compilation& compilation);

// Returns the search's findings for people, with the `schedule` of a model.yaml that asks for these settings.
std::string search_text(const Compilation& compilation);

// A PassObserver is called after each pass, with a verified module. Its error ends the compilation.
using PassObserver = std::function<Status(const Pass&, const Compilation&)>;

// Runs the passes up to and including `last` ("" for all). The verifier runs after each pass that makes a
// module. An invalid module of the first pass is an error, because a family file may cause it. An invalid
// module of a later pass is a bug.
//
// The last pass, the proof, runs on a thread of its own while `beside` is called. The proof changes only its
// report. Errors: those of the passes, of `beside` and of the observer.
Status run_passes(Compilation& compilation, const std::string& last = "", const PassObserver& observer = {},
                  const std::function<Status()>& beside = {});

// ModelRequest names the model to compile, its options and the machine.
struct ModelRequest {
  std::string model;     // a checkpoint directory or a model.yaml
  ModelOptions options;  // override the model.yaml
  std::string machine;   // name or file; "native": the installed GPU; "": the target's default
  Mode mode = Mode::kMegakernel;
  bool keep_activations = false;         // PlaceOptions::keep_activations
  std::optional<SearchBudget> search{};  // SearchOptions::budget
  bool ignore_measured = false;          // the machine ignores the measurements of mkc doctor
  std::vector<std::string> without{};    // target features that the code does not use: parse_without()
};

// Reads request, generation defaults and machine. Reads the headers of the checkpoint's weights if there are
// any; `weights` makes their absence an error. Target or machine "native" is that of the installed GPU.
//
// Errors: those of find_model, read_request, read_generation, machine_of, native_machine and open_checkpoint;
// a machine of another target; settings beyond the machine's bounds.
Result<Compilation> open_model(const ModelRequest& request, bool weights);

}  // namespace mkc
