#include "scheduler/split_by_cost.h"

#include <fmt/format.h>

#include <algorithm>

#include "scheduler/choose.h"
#include "scheduler/named.h"
#include "scheduler/trials.h"

namespace mkc {
namespace {

constexpr double kWorthwhile = 0.995;  // the mean of the steps' times, of those before
constexpr double kUneven = 1.1;        // strips of the busiest worker, of the mean
constexpr int64_t kTriedParts[] = {2, 4};

// Whether some workers have to take many more strips of a product than others, and no other product of its
// rows evens that out.
bool is_uneven(const TaskProgram& program, const TaskGrid& product, uint32_t workers) {
  const TensorId x = find_operand(product, "x")->tensor;
  const bool alone = std::none_of(program.grids.begin(), program.grids.end(), [&](const TaskGrid& other) {
    const Access* rows = multiplied_rows(other);
    return rows && rows->tensor == x && other.name != product.name;
  });
  const int64_t strips = product.coords[0].extent.constant(), most = (strips + workers - 1) / workers;
  return alone && static_cast<double>(most * workers) > kUneven * static_cast<double>(strips);
}

// Whether all grids of the pattern are products that can be split: in some layers it may name experts.
bool may_split_all(const TaskProgram& program, const std::string& pattern) {
  return std::all_of(program.grids.begin(), program.grids.end(), [&](const TaskGrid& grid) {
    return !is_named(grid, pattern) || why_not_split(program, grid, kTriedParts[0]).empty();
  });
}

// Kinds of the first layers' products, in the order of the program.
std::vector<std::string> candidates(const TaskProgram& program, const SplitOptions& options) {
  std::vector<std::string> found;
  const TaskProgram layers = first_layers(program);
  for (const TaskGrid& grid : layers.grids) {
    const std::string pattern = layer_pattern(grid);
    const bool asked = std::any_of(options.rules.begin(), options.rules.end(),
                                   [&](const SplitRule& rule) { return is_named(grid, rule.grids); });
    if (pattern.empty() || asked || !may_split_all(program, pattern)) continue;
    if (!options.thorough && !is_uneven(program, grid, options.costs.workers)) continue;
    if (std::find(found.begin(), found.end(), pattern) == found.end()) found.push_back(pattern);
  }
  return found;
}

// The first layers with some products split.
class Splits {
 public:
  Splits(const TaskProgram& program, const Machine& machine, const EventCosts& costs)
      : layers_(first_layers(program)),
        machine_(machine),
        costs_(costs),
        trials_(layers_, machine, costs.workers) {}

  Result<Trial> begin(const std::vector<SplitRule>& rules) const {
    Result<TaskProgram> split = split_as_asked(layers_, rules);
    if (split.ok()) split = derive_events(std::move(split.value()), costs_);
    if (!split.ok()) return split.error();
    const auto placements = choose_placements(split.value(), Scheduler::kStatic, machine_, costs_.workers);
    if (!placements.ok()) return placements.error();
    return trials_.begin(split.value(), placements.value());
  }

  // Tries a kind of product beside those that are split already; `rules` and `best` become what wins.
  Result<SplitChoice> choose(const std::string& grids, std::vector<SplitRule>& rules, Trial& best) const {
    SplitChoice choice{grids, 1, ""};
    for (int64_t parts : kTriedParts) {
      std::vector<SplitRule> tried = rules;
      tried.push_back({grids, parts, {}});
      Result<Trial> trial = begin(tried);
      if (!trial.ok()) return trial.error();
      const Result<std::vector<double>> ratios = trials_.ratios(trial.value(), best);
      if (!ratios.ok()) return ratios.error();
      choice.reason +=
          fmt::format("; simulated steps in {} parts to those in {}: {}", parts,
                      choice.parts == 1 ? "one" : std::to_string(choice.parts), trials_.text(ratios.value()));
      if (!trials_.wins(ratios.value(), kWorthwhile)) continue;
      choice.parts = parts;
      rules = std::move(tried);
      best = std::move(trial.value());
    }
    choice.reason =
        (choice.parts == 1 ? "not split" : fmt::format("split into {} parts", choice.parts)) + choice.reason;
    return choice;
  }

 private:
  const TaskProgram layers_;
  const Machine& machine_;
  const EventCosts& costs_;
  const Trials trials_;
};

}  // namespace

Result<TaskProgram> split_products(TaskProgram program, const Machine& machine, const SplitOptions& options,
                                   std::vector<SplitChoice>* choices) {
  Result<TaskProgram> asked = split_as_asked(std::move(program), options.rules);
  if (!asked.ok() || options.scheduler != Scheduler::kAuto) return asked;
  const std::vector<std::string> tried = candidates(asked.value(), options);
  if (tried.empty()) return asked;
  const Splits splits(asked.value(), machine, options.costs);
  std::vector<SplitRule> rules;
  Result<Trial> best = splits.begin(rules);
  if (!best.ok()) return best.error();
  for (const std::string& grids : tried) {
    Result<SplitChoice> choice = splits.choose(grids, rules, best.value());
    if (!choice.ok()) return choice.error();
    if (choices) choices->push_back(std::move(choice.value()));
  }
  return split_as_asked(std::move(asked.value()), rules);
}

}  // namespace mkc
