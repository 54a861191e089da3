#include "tools/simulated_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/bodies.h"
#include "scheduler/machine/cost.h"
#include "scheduler/machine/measured.h"
#include "scheduler/search/beside.h"

namespace mkc {
namespace {

constexpr int64_t kDefaultContext = 1024;

// Tells whether the command line or a model.yaml limits the tokens of a step. Another limit follows the step.
bool limits_tokens(const StepOptions& o, const CompileRequest& request) {
  return o.model.options.max_tokens || request.places.contains("tokens");
}

int64_t tokens_of(const StepOptions& o) {
  return o.chunk != 0 ? o.batch - 1 + o.chunk : std::max(o.tokens, o.batch);
}

// Returns the requests of a step, all with one context. Tokens are divided evenly among the requests, or the
// last request has a chunk and the others one token.
Result<std::vector<StepRequest>> step_requests(const Compilation& c, const StepOptions& o) {
  const Symbols& symbols = c.schedule().program.symbols;
  const StepSymbols step = step_symbols(symbols);
  const int64_t max_tokens = symbols[step.tokens].bounds.hi, max_requests = symbols[step.requests].bounds.hi,
                max_context = symbols[step.kv_len].bounds.hi, max_rows = symbols[step.q_len].bounds.hi;
  const auto check = [](const char* flag, int64_t value, int64_t min, int64_t max) -> Status {
    if (value >= min && value <= max) return {};
    return Error{fmt::format("{}: error: found {}, expected {} to {}", flag, value, min, max)};
  };
  const int64_t tokens = o.tokens != 0 ? o.tokens : tokens_of(o);
  const int64_t context = o.model.options.context.value_or(std::min(kDefaultContext, max_context));
  if (Status s = check("--batch", o.batch, 1, max_requests); !s.ok()) return s.error();
  if (Status s = check("--context", context, 1, max_context); !s.ok()) return s.error();
  const int64_t max = limits_tokens(o, c.request)
                          ? std::min(max_tokens, o.batch * std::min(context, max_rows))
                          : std::min(kMaxStepTokens, o.batch * context);
  const int64_t max_chunk = std::min({max_tokens - o.batch + 1, context, max_rows});
  if (o.chunk != 0)
    if (Status s = check("--chunk", o.chunk, 1, max_chunk); !s.ok()) return s.error();
  if (Status s = check("--tokens", tokens, o.batch, max); !s.ok()) return s.error();
  std::vector<StepRequest> requests;
  for (int64_t b = 0; b < o.batch; ++b)
    requests.push_back({o.chunk != 0 ? 1 : tokens / o.batch + (b < tokens % o.batch ? 1 : 0), context});
  if (o.chunk != 0) requests.back().rows = o.chunk;
  return requests;
}

}  // namespace

void add_step_options(CLI::App& command, StepOptions& request) {
  add_model_options(command, request.model);
  command
      .add_option("--target", request.model.options.target,
                  "of a GPU, emulator, or x86-64: that of this processor; default sm_90a")
      ->type_name("TARGET");
  command.get_option("--context")
      ->description("positions of each request, this step's included; default min(the model's, 1024)");
  command.get_option("--max-tokens")
      ->description("tokens of one step at most; default 64, or this step's if they are more");
  command.get_option("--max-requests")
      ->description("requests of one step at most; default 16, or this step's if they are more");
  command.add_option("--batch", request.batch, "requests of the step; default 1")
      ->check(CLI::Range(int64_t{1}, kMaxStepRequests));
  CLI::Option* tokens = command.add_option(
      "--tokens", request.tokens, "tokens of the step, shared out among the requests; default one each");
  tokens->check(CLI::Range(int64_t{1}, kMaxStepTokens));
  command.add_option("--chunk", request.chunk, "tokens of the last request, where the others have one")
      ->check(CLI::Range(int64_t{1}, kMaxStepTokens))
      ->excludes(tokens);
}

Result<SimulatedStep> simulate_step(StepOptions request, const SimulateOptions& options) {
  // --context is itself the limit of the cache.
  request.model.options.step_tokens = std::min(tokens_of(request), kMaxStepTokens);
  request.model.options.step_requests = request.batch;
  Result<Compilation> opened = open_model(request.model, false);
  if (!opened.ok()) return opened.error();
  Compilation& c = opened.value();
  if (!options.run_ahead && c.machine.is_processor())
    return Error{fmt::format("--no-run-ahead: error: is for GPUs, found target {}", c.request.target)};
  c.balance_grids = request.balance_grids;
  if (Status status = run_passes(c); !status.ok()) return status.error();
  const Result<std::vector<StepRequest>> requests = step_requests(c, request);
  if (!requests.ok()) return requests.error();
  return simulate_step(std::move(c), requests.value(), options);
}

Result<SimulatedStep> simulate_step(Compilation compilation, const std::vector<StepRequest>& requests,
                                    const SimulateOptions& options) {
  SimulatedStep step;
  step.compilation = std::move(compilation);
  step.context = requests[0].kv_len;
  const Symbols& symbols = step.compilation.schedule().program.symbols;
  int64_t tokens = 0;
  for (const StepRequest& request : requests) tokens += request.rows;
  std::vector<int64_t> active_expert_rows;
  if (const Routing routing = routing_of(symbols); routing.choices != 0)
    active_expert_rows = spread_rows(routing, tokens, expected_active_experts(routing, tokens));
  step.symbols = step_values(symbols, requests, active_expert_rows);
  if (stay_in_cache(step.compilation.machine, step.compilation.schedule().weight_bytes)) {
    Result<Machine> cached = with_weights_in_cache(step.compilation.machine);
    if (!cached.ok()) return cached.error();
    step.compilation.machine = std::move(cached.value());
    step.compilation.machine_said += "the weights stay in the last-level cache\n";
  }
  Result<Simulation> simulated =
      simulate(step.compilation.schedule(), step.compilation.machine, step.symbols, options);
  if (!simulated.ok()) return simulated.error();
  step.simulation = std::move(simulated.value());
  return step;
}

Result<StepRange> simulate_range(const SimulatedStep& step, const SimulateOptions& options) {
  const auto simulate_at = [&](RangeEnd end) -> Result<Simulation> {
    const Result<Machine> machine = machine_at(step.compilation.machine, end);
    if (!machine.ok()) return machine.error();
    return simulate(step.compilation.schedule(), machine.value(), step.symbols, options);
  };
  auto at_slow_end = start_beside([&] { return simulate_at(RangeEnd::kSlow); });
  Result<Simulation> fast = simulate_at(RangeEnd::kFast), slow = at_slow_end.get();
  if (!fast.ok()) return fast.error();
  if (!slow.ok()) return slow.error();
  return StepRange{.fast = std::move(fast.value()), .slow = std::move(slow.value())};
}

std::string machine_from(const Compilation& compilation) {
  std::string said = compilation.machine_said;
  while (said.ends_with('\n')) said.pop_back();
  return said;
}

std::string symbols_text(const SimulatedStep& step) {
  const Symbols& symbols = step.compilation.schedule().program.symbols;
  std::string text;
  for (SymbolId id : symbols.ids())
    if (!symbols[id].is_list() && !symbols[id].cut)
      text += fmt::format("{} = {}, ", symbols[id].name, step.symbols[id.index]);
  return text + fmt::format("{} positions a request", step.context);
}

nlohmann::ordered_json symbols_json(const SimulatedStep& step) {
  const Symbols& symbols = step.compilation.schedule().program.symbols;
  nlohmann::ordered_json out;
  for (SymbolId id : symbols.ids()) {
    const Symbol& s = symbols[id];
    if (s.sums.valid() || s.cut) continue;
    out[s.name] = step.symbols[id.index];
    if (!s.is_list()) continue;
    const auto begin = step.symbols.begin() + step.symbols[id.index];
    out[s.name] = std::vector<int64_t>(begin, begin + evaluate(s.length, step.symbols));
  }
  return out;
}

}  // namespace mkc
