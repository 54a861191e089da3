#include "scheduler/simulate.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tools/commands.h"

namespace mkc {
namespace {

constexpr int64_t kMostTokens = 256, kMostRequests = 64;

struct Request {
  ModelRequest model;
  int64_t batch = 1;
  int64_t tokens = 1;  // of the step
  bool json = false;
};

// Values of the schedule's symbols in a step of the request, by SymbolId.
Result<std::vector<int64_t>> symbol_values(const TaskProgram& program, const Request& request) {
  std::vector<int64_t> values;
  for (const Symbol& symbol : program.symbols) {
    const bool tokens = symbol.name == "T";
    const int64_t context = request.model.options.context.value_or(std::min<int64_t>(1024, symbol.bounds.hi));
    const int64_t value = tokens ? request.tokens : context;
    if (value < symbol.bounds.lo || value > symbol.bounds.hi)
      return Error{fmt::format("{}: error: found {}, expected {} to {}", tokens ? "--tokens" : "--context",
                               value, symbol.bounds.lo, symbol.bounds.hi)};
    values.push_back(value);
  }
  return values;
}

nlohmann::ordered_json to_json(const Compilation& c, const Request& request, std::span<const int64_t> values,
                               const Simulation& s) {
  nlohmann::ordered_json symbols;
  for (SymbolId id : c.schedule().program.symbols.ids())
    symbols[c.schedule().program.symbols[id].name] = values[id.index];
  nlohmann::ordered_json idle;
  for (size_t cause = 0; cause < kIdleCauses; ++cause)
    idle[idle_cause_name(static_cast<IdleCause>(cause))] = s.idle_ns[cause] / 1e3;
  return {{"model", c.request.checkpoint},
          {"machine", c.machine.name},
          {"workers", c.schedule().workers},
          {"batch", request.batch},
          {"symbols", symbols},
          {"us", s.ns / 1e3},
          {"floor_us", s.floor_ns / 1e3},
          {"fraction", s.floor_ns / s.ns},
          {"bytes", s.bytes},
          {"padding_bytes", s.padding_bytes},
          {"idle_us", idle}};
}

Status run(Request& request) {
  if (request.batch != 1)
    return Error{
        fmt::format("--batch: error: found {}, expected 1: a step holds one request", request.batch)};
  // The limit of the step is at least what is simulated; that of the cache is --context itself.
  ModelOptions& limits = request.model.options;
  if (!limits.max_tokens && request.tokens > 16) limits.max_tokens = request.tokens;
  Result<Compilation> opened = open_model(request.model, false);
  if (!opened.ok()) return opened.error();
  Compilation& c = opened.value();
  if (Status status = run_passes(c); !status.ok()) return status;
  Result<std::vector<int64_t>> symbols = symbol_values(c.schedule().program, request);
  if (!symbols.ok()) return symbols.error();
  const Result<Simulation> simulated = simulate(c.schedule(), c.machine, symbols.value());
  if (!simulated.ok()) return simulated.error();
  const Simulation& s = simulated.value();
  if (request.json) {
    fmt::print("{}\n", to_json(c, request, symbols.value(), s).dump(1));
    return {};
  }
  fmt::print("simulated, not measured: {:.1f} us, floor {:.1f} us, fraction {:.3f}\n", s.ns / 1e3,
             s.floor_ns / 1e3, s.floor_ns / s.ns);
  for (size_t cause = 0; cause < kIdleCauses; ++cause)
    fmt::print("  {:<10} {:>10.1f} us\n", idle_cause_name(static_cast<IdleCause>(cause)),
               s.idle_ns[cause] / 1e3);
  return {};
}

}  // namespace

void add_simulate(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("simulate", "how long a step would take, by a model of the machine");
  auto request = std::make_shared<Request>();
  add_model_options(*command, request->model);
  command->get_option("--context")
      ->description("positions of the request, this step's included; default 1024");
  command->add_option("--batch", request->batch, "requests of the step; default 1")
      ->check(CLI::Range(int64_t{1}, kMostRequests));
  command->add_option("--tokens", request->tokens, "tokens of the step; default 1")
      ->check(CLI::Range(int64_t{1}, kMostTokens));
  command->add_flag("--json", request->json, "print JSON");
  command->callback([request, &action] { action = [request] { return run(*request); }; });
}

}  // namespace mkc
