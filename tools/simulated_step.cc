#include "tools/simulated_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mkc {
namespace {

constexpr int64_t kMostTokens = 256, kMostRequests = 64;
constexpr int64_t kDefaultContext = 1024;

// Values of the schedule's symbols in the step, by SymbolId.
Result<std::vector<int64_t>> symbol_values(const TaskProgram& program, const StepOptions& request) {
  std::vector<int64_t> values;
  for (const Symbol& symbol : program.symbols) {
    const bool tokens = symbol.name == "T";
    const int64_t context =
        request.model.options.context.value_or(std::min(kDefaultContext, symbol.bounds.hi));
    const int64_t value = tokens ? request.tokens : context;
    if (value < symbol.bounds.lo || value > symbol.bounds.hi)
      return Error{fmt::format("{}: error: found {}, expected {} to {}", tokens ? "--tokens" : "--context",
                               value, symbol.bounds.lo, symbol.bounds.hi)};
    values.push_back(value);
  }
  return values;
}

}  // namespace

void add_step_options(CLI::App& command, StepOptions& request) {
  add_model_options(command, request.model);
  command.get_option("--context")
      ->description("positions of the request, this step's included; default 1024");
  command.add_option("--batch", request.batch, "requests of the step; default 1")
      ->check(CLI::Range(int64_t{1}, kMostRequests));
  command.add_option("--tokens", request.tokens, "tokens of the step; default 1")
      ->check(CLI::Range(int64_t{1}, kMostTokens));
}

Result<SimulatedStep> simulate_step(StepOptions request, const SimulateOptions& options) {
  if (request.batch != 1)
    return Error{
        fmt::format("--batch: error: found {}, expected 1: a step holds one request", request.batch)};
  // The limit of the step is at least what is simulated; that of the cache is --context itself.
  ModelOptions& limits = request.model.options;
  if (!limits.max_tokens && request.tokens > 16) limits.max_tokens = request.tokens;
  Result<Compilation> opened = open_model(request.model, false);
  if (!opened.ok()) return opened.error();
  SimulatedStep step;
  step.compilation = std::move(opened.value());
  step.compilation.balance_grids = request.balance_grids;
  if (Status status = run_passes(step.compilation); !status.ok()) return status.error();
  Result<std::vector<int64_t>> symbols = symbol_values(step.compilation.schedule().program, request);
  if (!symbols.ok()) return symbols.error();
  step.symbols = std::move(symbols.value());
  Result<Simulation> simulated =
      simulate(step.compilation.schedule(), step.compilation.machine, step.symbols, options);
  if (!simulated.ok()) return simulated.error();
  step.simulation = std::move(simulated.value());
  return step;
}

std::string symbols_text(const SimulatedStep& step) {
  const TaskProgram& program = step.compilation.schedule().program;
  std::string text;
  for (SymbolId id : program.symbols.ids())
    text +=
        fmt::format("{}{} = {}", text.empty() ? "" : ", ", program.symbols[id].name, step.symbols[id.index]);
  return text;
}

nlohmann::ordered_json symbols_json(const SimulatedStep& step) {
  const TaskProgram& program = step.compilation.schedule().program;
  nlohmann::ordered_json symbols;
  for (SymbolId id : program.symbols.ids()) symbols[program.symbols[id].name] = step.symbols[id.index];
  return symbols;
}

}  // namespace mkc
