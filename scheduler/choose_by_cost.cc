#include "scheduler/choose_by_cost.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/values.h"
#include "scheduler/choose.h"
#include "scheduler/deal.h"
#include "scheduler/simulate.h"

namespace mkc {
namespace {

constexpr int32_t kLayers = 2;  // simulated: the second begins in the middle of a stream, as all others do
constexpr int64_t kContext = 1024;
constexpr double kWorthwhile = 0.995;  // the mean of the steps' times, of those without tickets
constexpr double kTolerated = 1.005;   // the time of any one step

// The grids of the first layers, and those before. What only later grids wait for is counted no more.
TaskProgram first_layers(TaskProgram program) {
  std::vector<TaskGrid>& grids = program.grids.items;
  grids.erase(std::find_if(grids.begin(), grids.end(), [](const TaskGrid& g) { return g.layer >= kLayers; }),
              grids.end());
  std::vector<bool> awaited(program.events.size(), false);
  for (const TaskGrid& grid : grids)
    for (const Wait& wait : grid.waits) awaited[wait.event.index] = true;
  for (TaskGrid& grid : grids)
    std::erase_if(grid.notifies, [&](const Notify& n) { return !awaited[n.event.index]; });
  for (EventId e : program.events.ids())
    if (!awaited[e.index]) program.events[e].expect = 0;
  return program;
}

struct SampleStep {
  std::string name;
  std::vector<int64_t> values;
};

// Requests of one token and one length each: one, half as many as may be, all; and as many of all lengths,
// one of which brings what is left of the step's tokens.
std::vector<SampleStep> sample_steps(const Symbols& symbols) {
  const auto most = [&](const char* name) {
    const SymbolId id = find_symbol(symbols, name);
    return id.valid() ? symbols[id].bounds.hi : 1;
  };
  const int64_t requests = most("B"), context = std::min(kContext, most("kv_len")), tokens = most("T");
  std::vector<SampleStep> steps;
  for (int64_t count : {int64_t{1}, requests / 2, requests}) {
    if (count < 1 || (!steps.empty() && count == 1)) continue;
    const std::vector<StepRequest> equal(static_cast<size_t>(count), {1, context});
    steps.push_back({fmt::format("{} request{}", count, count == 1 ? "" : "s"), step_values(symbols, equal)});
  }
  std::vector<StepRequest> mixed;
  for (int64_t b = requests; b > 0; --b) mixed.push_back({1, std::max<int64_t>(1, context * b / requests)});
  mixed[0].rows = std::min({tokens - requests + 1, context, most("q_len")});
  if (requests > 1) steps.push_back({fmt::format("{} mixed", requests), step_values(symbols, mixed)});
  return steps;
}

struct Trial {
  const TaskProgram layers;
  const Machine& machine;
  const uint32_t workers;
  const std::vector<SampleStep> steps;

  // Of each step, in ns.
  Result<std::vector<double>> times(const std::vector<Placement>& placements) const {
    Result<Schedule> schedule =
        deal(layers, {placements.begin(), placements.begin() + layers.grids.size()}, machine, workers);
    if (!schedule.ok()) return schedule.error();
    std::vector<double> ns;
    for (const SampleStep& step : steps) {
      Result<Simulation> simulation = simulate(schedule.value(), machine, step.values);
      if (!simulation.ok()) return simulation.error();
      ns.push_back(simulation.value().ns);
    }
    return ns;
  }
};

// "1 request 1.00, 16 mixed 0.87"
std::string ratios_text(const std::vector<SampleStep>& steps, const std::vector<double>& ratios) {
  std::string text;
  for (size_t i = 0; i < steps.size(); ++i)
    text += fmt::format("{}{} {:.3f}", text.empty() ? "" : ", ", steps[i].name, ratios[i]);
  return text;
}

}  // namespace

Result<std::vector<Placement>> choose_by_cost(const TaskProgram& program, const Machine& machine,
                                              uint32_t workers, std::vector<Placement> placements) {
  const Trial trial{first_layers(program), machine, workers, sample_steps(program.symbols)};
  Result<std::vector<double>> best = trial.times(placements);
  if (!best.ok()) return best.error();
  for (BodyKind body : {BodyKind::kAttend, BodyKind::kExpert, BodyKind::kProduct}) {
    std::vector<Placement> drawn = placements;
    for (GridId g : program.grids.ids())
      if (program.grids[g].body == body && program.grids[g].layer >= 0)
        drawn[g.index] = by_tickets(program, g);
    if (drawn == placements) continue;
    Result<std::vector<double>> times = trial.times(drawn);
    if (!times.ok()) return times.error();
    std::vector<double> ratios;
    for (size_t i = 0; i < trial.steps.size(); ++i) ratios.push_back(times.value()[i] / best.value()[i]);
    double sum = 0;
    for (double ratio : ratios) sum += ratio;
    const bool wins = sum < kWorthwhile * static_cast<double>(ratios.size()) &&
                      *std::max_element(ratios.begin(), ratios.end()) <= kTolerated;
    const std::string figures = ratios_text(trial.steps, ratios);
    for (GridId g : program.grids.ids()) {
      if (drawn[g.index] == placements[g.index]) continue;
      Placement& placement = placements[g.index];
      if (wins) placement = drawn[g.index];
      placement.reason += "; simulated steps with tickets to without: " + figures;
    }
    if (wins) best = std::move(times);
  }
  return placements;
}

}  // namespace mkc
