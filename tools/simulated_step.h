// A step to be simulated, as the command line gives it, and its result.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ir/values.h"
#include "scheduler/simulate/simulate.h"
#include "tools/commands.h"

namespace mkc {

struct StepOptions {
  ModelRequest model;
  int64_t batch = 1;
  int64_t tokens = 0;          // of the step; 0: one a request
  int64_t chunk = 0;           // of the last request, where the others have one; 0: none has so many
  bool balance_grids = false;  // of PlaceOptions
};

// Adds the options of the model and --batch, --tokens and --chunk; --context is the request's positions.
void add_step_options(CLI::App& command, StepOptions& request);

struct SimulatedStep {
  Compilation compilation;       // with its schedule
  std::vector<int64_t> symbols;  // as evaluate() takes them
  int64_t context = 0;           // positions of the first request
  Simulation simulation;         // with the machine's figures as they are
};

// The same step where each figure of the machine lies at one end of its range.
struct StepRange {
  Simulation fast, slow;
};
Result<StepRange> simulate_range(const SimulatedStep& step, const SimulateOptions& options = {});

// Errors: those of open_model and of the passes; a step beyond the schedule's limits, by its flag.
Result<SimulatedStep> simulate_step(StepOptions request, const SimulateOptions& options = {});

// The same for a compilation with its schedule and the given requests, within its limits.
Result<SimulatedStep> simulate_step(Compilation compilation, const std::vector<StepRequest>& requests,
                                    const SimulateOptions& options = {});

std::string symbols_text(const SimulatedStep& step);  // "T = 1, B = 1, q_len = [1], kv_len = [1024]"
nlohmann::ordered_json symbols_json(const SimulatedStep& step);

}  // namespace mkc
