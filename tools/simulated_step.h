// Options of the command line say which step is simulated.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ir/values.h"
#include "scheduler/simulate/simulate.h"
#include "tools/commands.h"

namespace mkc {

struct StepOptions {
  ModelRequest model;
  int64_t batch = 1;
  int64_t tokens = 0;          // tokens of the step; 0: one per request
  int64_t chunk = 0;           // tokens of the last request, the others having one; 0: no such request
  bool balance_grids = false;  // PlaceOptions::balance_grids
};

// Adds the options of the model, and --batch, --tokens and --chunk. --context gives the positions of each
// request.
void add_step_options(CLI::App& command, StepOptions& request);

struct SimulatedStep {
  Compilation compilation;       // compilation that has its schedule
  std::vector<int64_t> symbols;  // values in the form that evaluate() takes
  int64_t context = 0;           // positions of the first request
  Simulation simulation;         // uses the machine's plain figures, not an end of their ranges
};

// StepRange holds two simulations of a step. `fast` and `slow` use the fast and the slow end of the range of
// each machine figure.
struct StepRange {
  Simulation fast, slow;
};
Result<StepRange> simulate_range(const SimulatedStep& step, const SimulateOptions& options = {});

// Compiles the model and simulates the step. Errors: those of open_model and of the passes; a step beyond the
// schedule's limits, named by its flag; no run-ahead on a processor, which has none.
Result<SimulatedStep> simulate_step(StepOptions request, const SimulateOptions& options = {});

// Simulates a step of these requests for a compilation that has its schedule. Requires requests within the
// schedule's limits.
Result<SimulatedStep> simulate_step(Compilation compilation, const std::vector<StepRequest>& requests,
                                    const SimulateOptions& options = {});

// Returns where the machine's figures come from: "machine: measured on …". Returns "" for a built-in machine.
std::string machine_from(const Compilation& compilation);

// Returns the symbols that are neither lists nor cut, and the context: "T = 1, B = 1, 1024 positions a
// request".
std::string symbols_text(const SimulatedStep& step);
nlohmann::ordered_json symbols_json(const SimulatedStep& step);

}  // namespace mkc
