#include "scheduler/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "scheduler/choose.h"
#include "scheduler/named.h"
#include "scheduler/trials.h"

namespace mkc {
namespace {

constexpr double kGain = 0.001;  // of the first layers' steps, that a change must bring

bool fits(const PlacementRule& rule, const TaskGrid& grid) {
  return is_named(grid, rule.grids);
}

// Each kind of a layer's grids with each placement that all of them can have, in the order of the program.
std::vector<PlacementRule> possible_changes(const TaskProgram& program,
                                            const std::vector<PlacementRule>& asked,
                                            const std::vector<Placement>& placements) {
  std::vector<std::string> patterns;
  for (const TaskGrid& grid : program.grids) {
    const std::string pattern = layer_pattern(grid);
    if (!pattern.empty() && std::find(patterns.begin(), patterns.end(), pattern) == patterns.end())
      patterns.push_back(pattern);
  }
  std::erase_if(patterns, [&](const std::string& pattern) {
    return std::any_of(program.grids.begin(), program.grids.end(), [&](const TaskGrid& grid) {
      return fits({pattern, {}, {}}, grid) &&
             std::any_of(asked.begin(), asked.end(),
                         [&](const PlacementRule& rule) { return fits(rule, grid); });
    });
  });
  std::vector<PlacementRule> changes;
  for (const std::string& pattern : patterns)
    for (PlacementKind kind : kPlacementKinds) {
      std::vector<Placement> tried = placements;
      if (apply_rules(program, {{pattern, kind, {}}}, tried).ok()) changes.push_back({pattern, kind, {}});
    }
  return changes;
}

bool changes_nothing(const TaskProgram& program, const PlacementRule& change,
                     const std::vector<Placement>& placements) {
  for (GridId g : program.grids.ids())
    if (fits(change, program.grids[g]) && placements[g.index].kind != change.kind) return false;
  return true;
}

class Search {
 public:
  Search(const TaskProgram& program, const Machine& machine, uint32_t workers, const SearchBudget& budget)
      : program_(program), layers_(first_layers(program), machine, workers), budget_(budget) {}

  // In turn, until none of them has gained anything since the last that did.
  Status run(const std::vector<PlacementRule>& changes, std::vector<Placement>& placements,
             SearchReport& report) {
    Result<Trial> base = layers_.begin(placements);
    if (!base.ok()) return base.error();
    double best = 1;
    for (size_t i = 0, without_gain = 0; without_gain < changes.size(); i = (i + 1) % changes.size()) {
      ++without_gain;
      if (changes_nothing(program_, changes[i], placements)) continue;
      if (is_over(report)) return {};
      ++report.trials;
      std::vector<Placement> tried = placements;
      if (Status status = apply_rules(program_, {changes[i]}, tried); !status.ok()) return status;
      Result<Trial> trial = layers_.begin(tried);
      if (!trial.ok()) return trial.error();
      const Result<std::vector<double>> ratios = layers_.ratios(trial.value(), base.value());
      if (!ratios.ok()) return ratios.error();
      if (!layers_.wins(ratios.value(), best - kGain)) continue;
      best = mean(ratios.value());
      placements = std::move(tried);
      keep(changes[i], report);
      without_gain = 0;
    }
    report.complete = true;
    return {};
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool is_over(const SearchReport& report) const {
    const std::chrono::duration<double> spent = Clock::now() - begin_;
    return report.trials == budget_.trials || spent.count() >= budget_.seconds;
  }

  static void keep(const PlacementRule& change, SearchReport& report) {
    std::erase_if(report.chosen, [&](const PlacementRule& rule) { return rule.grids == change.grids; });
    report.chosen.push_back(change);
  }

  const TaskProgram& program_;
  const Trials layers_;
  const SearchBudget& budget_;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace

Result<SearchReport> search_placements(const TaskProgram& program, const Machine& machine, uint32_t workers,
                                       const std::vector<PlacementRule>& asked, const SearchBudget& budget,
                                       std::vector<Placement>& placements) {
  SearchReport report;
  std::vector<Placement> found = placements;
  Search search(program, machine, workers, budget);
  if (Status status = search.run(possible_changes(program, asked, placements), found, report); !status.ok())
    return status.error();
  std::erase_if(report.chosen,
                [&](const PlacementRule& r) { return changes_nothing(program, r, placements); });
  if (report.chosen.empty()) return report;

  const Trials whole(program, machine, workers);
  Result<Trial> base = whole.begin(placements), trial = whole.begin(found);
  if (!base.ok() || !trial.ok()) return base.ok() ? trial.error() : base.error();
  const Result<std::vector<double>> ratios = whole.ratios(trial.value(), base.value());
  if (!ratios.ok()) return ratios.error();
  if (!whole.wins(ratios.value(), 1)) {
    report.chosen.clear();
    return report;
  }
  report.figures = whole.text(ratios.value());
  for (GridId g : program.grids.ids())
    if (found[g.index].kind != placements[g.index].kind)
      placements[g.index] = {
          found[g.index].kind,
          "found by -O3; simulated steps with all that it found to without: " + report.figures};
  return report;
}

std::string to_string(const SearchReport& report) {
  std::string text = fmt::format("-O3: {} trial{}, {}", report.trials, report.trials == 1 ? "" : "s",
                                 report.complete ? "no other change gains more" : "the budget is spent");
  if (report.wide.from != 0)
    text += fmt::format("; wide_from: {}, simulated steps to those before: {}", report.wide.from,
                        report.wide.figures);
  if (report.chosen.empty() && report.wide.from != 0) return text;
  if (report.chosen.empty()) return text + "; nothing is better than without it";
  text += "; placement: {";
  for (const PlacementRule& rule : report.chosen)
    text += fmt::format("{}\"{}\": {}", &rule == report.chosen.data() ? "" : ", ", rule.grids,
                        placement_name(rule.kind));
  return text + "}; simulated steps to those without it: " + report.figures;
}

}  // namespace mkc
