#include "scheduler/choose_by_cost.h"

#include "scheduler/choose.h"
#include "scheduler/trials.h"

namespace mkc {
namespace {

constexpr double kWorthwhile = 0.995;  // the mean of the steps' times, of those without tickets

}  // namespace

Result<std::vector<Placement>> choose_by_cost(const TaskProgram& program, const Machine& machine,
                                              uint32_t workers, std::vector<Placement> placements) {
  const Trials trials(first_layers(program), machine, workers);
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
    const bool wins = trials.wins(ratios.value(), kWorthwhile);
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
