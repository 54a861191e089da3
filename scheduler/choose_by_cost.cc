#include "scheduler/choose_by_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <numeric>

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

// A way to place the first layers, and the steps' times so far.
struct Trial {
  Schedule schedule;
  std::vector<double> ns;  // of the first steps
};

struct Trials {
  const TaskProgram layers;
  const Machine& machine;
  const uint32_t workers;
  const std::vector<SampleStep> steps;

  Result<Trial> begin(const std::vector<Placement>& placements) const {
    Result<Schedule> schedule =
        deal(layers, {placements.begin(), placements.begin() + layers.grids.size()}, machine, workers);
    if (!schedule.ok()) return schedule.error();
    return Trial{std::move(schedule.value()), {}};
  }

  // Simulates up to `count` steps.
  Status go_on(Trial& trial, size_t count) const {
    while (trial.ns.size() < count) {
      Result<Simulation> step = simulate(trial.schedule, machine, steps[trial.ns.size()].values);
      if (!step.ok()) return step.error();
      trial.ns.push_back(step.value().ns);
    }
    return {};
  }

  // Times of steps by those of `base`, up to the first that takes too long.
  Result<std::vector<double>> ratios(Trial& trial, Trial& base) const {
    std::vector<double> ratios;
    while (ratios.size() < steps.size() && (ratios.empty() || ratios.back() <= kTolerated)) {
      const size_t count = ratios.size() + 1;
      std::future<Status> of_base = std::async(std::launch::async, [&] { return go_on(base, count); });
      const Status mine = go_on(trial, count);
      for (const Status& status : {mine, of_base.get()})
        if (!status.ok()) return status.error();
      ratios.push_back(trial.ns.back() / base.ns[count - 1]);
    }
    return ratios;
  }

  bool wins(const std::vector<double>& ratios) const {
    return ratios.back() <= kTolerated && std::accumulate(ratios.begin(), ratios.end(), 0.0) <
                                              kWorthwhile * static_cast<double>(ratios.size());
  }

  // "1 request 1.000, 16 mixed 0.871"
  std::string text(const std::vector<double>& ratios) const {
    std::string text;
    for (size_t i = 0; i < ratios.size(); ++i)
      text += fmt::format("{}{} {:.3f}", text.empty() ? "" : ", ", steps[i].name, ratios[i]);
    return text;
  }
};

}  // namespace

Result<std::vector<Placement>> choose_by_cost(const TaskProgram& program, const Machine& machine,
                                              uint32_t workers, std::vector<Placement> placements) {
  const Trials trials{first_layers(program), machine, workers, sample_steps(program.symbols)};
  Result<Trial> best = trials.begin(placements);
  if (!best.ok()) return best.error();
  for (BodyKind body : {BodyKind::kAttend, BodyKind::kExpert, BodyKind::kProduct}) {
    std::vector<Placement> drawn = placements;
    for (GridId g : program.grids.ids())
      if (program.grids[g].body == body && program.grids[g].layer >= 0)
        drawn[g.index] = by_tickets(program, g);
    if (drawn == placements) continue;
    Result<Trial> trial = trials.begin(drawn);
    if (!trial.ok()) return trial.error();
    const Result<std::vector<double>> ratios = trials.ratios(trial.value(), best.value());
    if (!ratios.ok()) return ratios.error();
    const bool wins = trials.wins(ratios.value());
    const std::string figures = trials.text(ratios.value());
    for (GridId g : program.grids.ids()) {
      if (drawn[g.index] == placements[g.index]) continue;
      Placement& placement = placements[g.index];
      if (wins) placement = drawn[g.index];
      placement.reason += "; simulated steps with tickets to without: " + figures;
    }
    if (wins) best = std::move(trial);
  }
  return placements;
}

}  // namespace mkc
