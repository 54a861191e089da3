#include "scheduler/wide_by_cost.h"

#include "scheduler/choose.h"
#include "scheduler/trials.h"

namespace mkc {
namespace {

constexpr double kWorthwhile = 0.995;  // the mean of the steps' times, of those before
constexpr uint32_t kTried[] = {33, 17, kLeastWide};

// False: no product may go by warpgroups.
bool set_wide_from(TaskProgram& program, uint32_t from) {
  bool any = false;
  for (TaskGrid& grid : program.grids) {
    if (wide_from(program, grid) == 0) continue;
    set_attr(grid.attrs, "wide_from", int64_t{from});
    any = true;
  }
  return any;
}

}  // namespace

Result<WideChoice> choose_wide(TaskProgram& program, const Machine& machine, uint32_t workers) {
  WideChoice choice;
  TaskProgram layers = first_layers(program);
  const auto placements = choose_placements(layers, Scheduler::kStatic, machine, workers);
  if (!placements.ok()) return placements.error();
  const Trials trials(layers, machine, workers);
  Result<Trial> best = trials.begin(placements.value());
  if (!best.ok()) return best.error();
  for (const uint32_t from : kTried) {
    if (!machine.warpgroups || !set_wide_from(layers, from)) break;
    Result<Trial> trial = trials.begin(layers, placements.value());
    if (!trial.ok()) return trial.error();
    const Result<std::vector<double>> ratios = trials.ratios(trial.value(), best.value());
    if (!ratios.ok()) return ratios.error();
    if (!trials.wins(ratios.value(), kWorthwhile)) continue;
    choice = {from, choice.figures + (choice.from == 0 ? "" : "; then ") + trials.text(ratios.value())};
    best = std::move(trial);
  }
  if (choice.from != 0) set_wide_from(program, choice.from);
  return choice;
}

}  // namespace mkc
