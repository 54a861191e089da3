#include "scheduler/trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <numeric>

#include "ir/values.h"
#include "scheduler/deal.h"
#include "scheduler/simulate.h"

namespace mkc {
namespace {

constexpr int32_t kLayers = 2;
constexpr int64_t kContext = 1024;
constexpr double kTolerated = 1.005;  // the time of any one step

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

}  // namespace

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

double mean(const std::vector<double>& ratios) {
  return std::accumulate(ratios.begin(), ratios.end(), 0.0) / static_cast<double>(ratios.size());
}

Trials::Trials(TaskProgram program, const Machine& machine, uint32_t workers)
    : program_(std::move(program)),
      machine_(machine),
      workers_(workers),
      steps_(sample_steps(program_.symbols)) {}

Result<Trial> Trials::begin(const std::vector<Placement>& placements) const {
  return begin(program_, placements);
}

Result<Trial> Trials::begin(const TaskProgram& program, const std::vector<Placement>& placements) const {
  Result<Schedule> schedule =
      deal(program, {placements.begin(), placements.begin() + program.grids.size()}, machine_, workers_);
  if (!schedule.ok()) return schedule.error();
  return Trial{std::move(schedule.value()), {}};
}

Status Trials::simulate_steps(Trial& trial, size_t count) const {
  while (trial.ns.size() < count) {
    Result<Simulation> step = simulate(trial.schedule, machine_, steps_[trial.ns.size()].values);
    if (!step.ok()) return step.error();
    trial.ns.push_back(step.value().ns);
  }
  return {};
}

Result<std::vector<double>> Trials::ratios(Trial& trial, Trial& base) const {
  std::vector<double> ratios;
  while (ratios.size() < steps_.size() && (ratios.empty() || ratios.back() <= kTolerated)) {
    const size_t step = ratios.size();
    auto of_base = std::async(std::launch::async, [&] { return simulate_steps(base, step + 1); });
    const Status mine = simulate_steps(trial, step + 1);
    for (const Status& status : {mine, of_base.get()})
      if (!status.ok()) return status.error();
    ratios.push_back(trial.ns[step] / base.ns[step]);
  }
  return ratios;
}

bool Trials::wins(const std::vector<double>& ratios, double most) const {
  return ratios.size() == steps_.size() && ratios.back() <= kTolerated && mean(ratios) <= most;
}

std::string Trials::text(const std::vector<double>& ratios) const {
  std::string text;
  for (size_t i = 0; i < ratios.size(); ++i)
    text += fmt::format("{}{} {:.3f}", text.empty() ? "" : ", ", steps_[i].name, ratios[i]);
  return text;
}

}  // namespace mkc
