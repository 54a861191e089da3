#include "scheduler/search/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <numeric>

#include "ir/values.h"
#include "scheduler/place/assign.h"
#include "scheduler/place/choose.h"
#include "scheduler/search/beside.h"
#include "scheduler/simulate/simulate.h"
#include "scheduler/tiling/codes.h"
#include "scheduler/tiling/fuse.h"
#include "scheduler/tiling/grid_pattern.h"
#include "scheduler/tiling/split.h"

namespace mkc {
namespace {

constexpr int32_t kLayers = 3;
constexpr int64_t kContext = 1024;
constexpr double kTolerated = 1.01;  // longest time of any step, relative to the base

// Returns the steps. Requests of the first steps have one token and one length each: one request, the most
// requests, and half of the most. The last step has the most requests with all lengths; one request brings
// the rest of the step's tokens.
std::vector<SampleStep> sample_steps(const Symbols& symbols) {
  const StepSymbols step = step_symbols(symbols);
  const auto max = [&](SymbolId id) { return id.valid() ? symbols[id].bounds.hi : 1; };
  const int64_t requests = max(step.requests), context = std::min(kContext, max(step.kv_len)),
                tokens = max(step.tokens);
  std::vector<SampleStep> steps;
  for (int64_t count : {int64_t{1}, requests, requests / 2}) {
    if (count < 1 || (!steps.empty() && count == 1)) continue;
    const std::vector<StepRequest> equal(static_cast<size_t>(count), {1, context});
    steps.push_back({fmt::format("{} request{}", count, count == 1 ? "" : "s"), step_values(symbols, equal)});
  }
  std::vector<StepRequest> mixed;
  for (int64_t b = requests; b > 0; --b) mixed.push_back({1, std::max<int64_t>(1, context * b / requests)});
  mixed[0].rows = std::min({tokens - requests + 1, context, max(step.q_len)});
  if (requests > 1) steps.push_back({fmt::format("{} mixed", requests), step_values(symbols, mixed)});
  return steps;
}

// Appends the rules that fit some grid. Other rules concern layers or parts that this program lacks.
template <class Rule>
void add_fitting(const TaskProgram& program, const std::vector<Rule>& rules, std::vector<Rule>& out) {
  const auto fits = [&](const Rule& rule) {
    return std::any_of(program.grids.begin(), program.grids.end(),
                       [&](const TaskGrid& grid) { return matches(grid, rule.grids); });
  };
  std::copy_if(rules.begin(), rules.end(), std::back_inserter(out), fits);
}

}  // namespace

TaskProgram first_layers(const TaskProgram& program) {
  const std::vector<TaskGrid>& grids = program.grids.items;
  const auto behind = std::find_if(grids.begin(), grids.end(),
                                   [](const TaskGrid& g) { return g.layer >= kLayers; }),
             end = std::find_if(behind, grids.end(), [](const TaskGrid& g) { return g.layer != kLayers; });
  std::vector<TaskGrid> first(grids.begin(), behind);
  std::copy_if(behind, end, std::back_inserter(first),
               [](const TaskGrid& g) { return g.body == BodyKind::kProduct; });
  if (first.size() != static_cast<size_t>(behind - grids.begin())) first.pop_back();
  return {program.name, program.symbols, program.tensors, {std::move(first)}, {}, program.ropes};
}

double mean(const std::vector<double>& ratios) {
  return std::accumulate(ratios.begin(), ratios.end(), 0.0) / static_cast<double>(ratios.size());
}

Evaluator::Evaluator(TaskProgram program, const Machine& machine, const SearchOptions& options)
    : program_(std::move(program)),
      machine_(machine),
      options_(options),
      steps_(sample_steps(program_.symbols)) {}

Result<TaskProgram> Evaluator::events(const Settings& settings) const {
  std::vector<SplitRule> rules = split_rules(settings);
  add_fitting(program_, options_.asked.splits, rules);
  TaskProgram program = program_;
  if (settings.wgmma_from != 0) set_wgmma_from(program, settings.wgmma_from);
  const bool by_grids = machine_.has_quantize_grids();
  if (settings.fp8_from != 0 && !by_grids) set_fp8_from(program, settings.fp8_from);
  Result<TaskProgram> split = split_as_asked(std::move(program), rules);
  if (!split.ok()) return split;
  if (options_.asked.codes || (settings.fp8_from != 0 && by_grids))
    split = add_codes(std::move(split.value()), options_.asked.wgmma_from ? 0 : kMinWgmmaFrom);
  return derive_events(std::move(split.value()), options_.costs);
}

Result<Evaluation> Evaluator::begin(Settings settings, const Evaluation* like) const {
  std::erase_if(settings.splits, [](const auto& rule) { return rule.second == 1; });
  const bool same = like && like->settings.splits == settings.splits &&
                    like->settings.wgmma_from == settings.wgmma_from &&
                    like->settings.fp8_from == settings.fp8_from;
  Result<TaskProgram> program = same ? like->schedule.program : events(settings);
  if (!program.ok()) return program.error();
  Result<std::vector<Placement>> placements = choose_placements(program.value(), options_.scheduler, {});
  const auto changes_nothing = [&](const auto& rule) {
    for (GridId g : program.value().grids.ids())
      if (matches(program.value().grids[g], rule.first) && placements.value()[g.index].kind != rule.second)
        return false;
    return true;
  };
  std::erase_if(settings.placements, changes_nothing);
  std::vector<PlacementRule> rules = placement_rules(settings);
  add_fitting(program.value(), options_.asked.placements, rules);
  placements = choose_placements(program.value(), options_.scheduler, rules);
  if (!placements.ok()) return placements.error();
  const AssignOptions how{options_.costs.workers, settings.ring != 0 ? settings.ring : options_.asked.ring};
  Result<Schedule> schedule =
      assign(std::move(program.value()), std::move(placements.value()), machine_, how);
  if (!schedule.ok()) return schedule.error();
  return Evaluation{std::move(settings), std::move(schedule.value()), {}};
}

Status Evaluator::simulate_all(Evaluation& evaluation) const {
  std::vector<std::future<Result<Simulation>>> steps;
  for (size_t step = evaluation.ns.size(); step < steps_.size(); ++step)
    steps.push_back(
        start_beside([&, step] { return simulate(evaluation.schedule, machine_, steps_[step].values); }));
  Status status;
  for (std::future<Result<Simulation>>& step : steps) {
    const Result<Simulation> simulated = step.get();
    if (simulated.ok())
      evaluation.ns.push_back(simulated.value().ns);
    else
      status = simulated.error();
  }
  return status;
}

Status Evaluator::simulate_steps(Evaluation& evaluation, size_t count) const {
  while (evaluation.ns.size() < count) {
    Result<Simulation> step = simulate(evaluation.schedule, machine_, steps_[evaluation.ns.size()].values);
    if (!step.ok()) return step.error();
    evaluation.ns.push_back(step.value().ns);
  }
  return {};
}

Result<std::vector<double>> Evaluator::ratios(Evaluation& evaluation, Evaluation& base) const {
  std::vector<double> ratios;
  while (ratios.size() < steps_.size() && (ratios.empty() || ratios.back() <= kTolerated)) {
    const size_t step = ratios.size();
    std::future<Status> of_base;
    if (base.ns.size() <= step) of_base = start_beside([&] { return simulate_steps(base, step + 1); });
    if (Status mine = simulate_steps(evaluation, step + 1); !mine.ok()) return mine.error();
    if (of_base.valid())
      if (Status status = of_base.get(); !status.ok()) return status.error();
    ratios.push_back(evaluation.ns[step] / base.ns[step]);
  }
  return ratios;
}

bool Evaluator::wins(const std::vector<double>& ratios, double max) const {
  return ratios.size() == steps_.size() && ratios.back() <= kTolerated && mean(ratios) <= max;
}

std::string Evaluator::figures(const Evaluation& evaluation, const Evaluation& by) const {
  std::string text;
  for (size_t i = 0; i < std::min(evaluation.ns.size(), by.ns.size()); ++i)
    text += fmt::format("{}{} {:.3f}", text.empty() ? "" : ", ", steps_[i].name, evaluation.ns[i] / by.ns[i]);
  return text;
}

}  // namespace mkc
