#include <nlohmann/json.hpp>

#include "codegen/describe.h"
#include "runtime/base/counted.h"
#include "scheduler/machine/cost.h"
#include "tools/grid_table.h"
#include "tools/hops.h"
#include "tools/output.h"
#include "tools/weight_table.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

struct Options {
  StepOptions step;
  bool json = false;
  bool hops = false;
};

void print_grids(const std::vector<GridRow>& rows) {
  print_out("{:<16} {:>6} {:<9} {:>8} {:>14}  {}\n", "grid", "alike", "placement", "tasks", "bytes",
            "reason");
  GridRow all;
  all.grids = 0;
  for (const GridRow& row : rows) {
    print_folded(59, "{:<16} {:>6} {:<9} {:>8} {:>14}  {}\n", row.name, row.grids,
                 placement_name(row.placement->kind), row.tasks, row.bytes, row.placement->reason);
    if (!row.unfused.empty()) print_folded(6, "  not fused: {}\n", row.unfused);
    for (const EventRow& e : row.in)
      print_folded(6, "  waits for {}: {} of {}; {}\n", e.name, mkrt::counted(e.cells, "cell"), e.expects,
                   e.reason);
    for (const EventRow& e : row.out)
      print_out("  notifies {}: {} of {}\n", e.name, mkrt::counted(e.cells, "cell"), e.expects);
    all.grids += row.grids;
    all.tasks += row.tasks;
    all.bytes += row.bytes;
  }
  print_out("{:<16} {:>6} {:<9} {:>8} {:>14}\n", "all", all.grids, "", all.tasks, all.bytes);
}

void print_hops(const SimulatedStep& step, const std::vector<HopRow>& hops) {
  const TaskProgram& program = step.compilation.schedule().program;
  print_out("critical hops, last product to first, in ns each (simulated{})\n",
            step.compilation.machine.is_processor() ? "" : ": not run on a GPU");
  print_out("{:<16} {:<16} {:>6} {:>8} {:>8} {:>8} {:>8}\n", "from", "to", "hops", "finish", "signal",
            "start", "hop");
  HopRow all;
  for (const HopRow& hop : hops) {
    print_out("{:<16} {:<16} {:>6} {:>8.0f} {:>8.0f} {:>8.0f} {:>8.0f}\n", program.grids[hop.from].name,
              program.grids[hop.to].name, hop.count, hop.finish_ns / hop.count, hop.signal_ns / hop.count,
              hop.start_ns / hop.count, hop.ns() / hop.count);
    all.count += hop.count;
    all.finish_ns += hop.ns();
  }
  print_out("{} hops take {:.1f} us of a step of {:.1f} us\n", all.count, all.finish_ns / 1e3,
            step.simulation.ns / 1e3);
}

ordered_json to_json(const SimulatedStep& step, const std::vector<GridRow>& rows,
                     const std::vector<HopRow>& hops) {
  const TaskProgram& program = step.compilation.schedule().program;
  ordered_json grids = ordered_json::array(), hop_rows = ordered_json::array();
  for (const GridRow& row : rows) grids.push_back(to_json(row));
  for (const HopRow& hop : hops)
    hop_rows.push_back({{"from", program.grids[hop.from].name},
                        {"to", program.grids[hop.to].name},
                        {"count", hop.count},
                        {"finish_us", hop.finish_ns / 1e3},
                        {"signal_us", hop.signal_ns / 1e3},
                        {"start_us", hop.start_ns / 1e3}});
  return {{"model", step.compilation.request.checkpoint},
          {"machine", step.compilation.machine.name},
          {"machine_from", machine_from(step.compilation)},
          {"workers", step.compilation.schedule().workers},
          {"symbols", symbols_json(step)},
          {"grids", grids},
          {"hops", hop_rows},
          {"us", step.simulation.ns / 1e3}};
}

Status run_explain(const Options& options) {
  const Result<SimulatedStep> simulated = simulate_step(options.step);
  if (!simulated.ok()) return simulated.error();
  const SimulatedStep& step = simulated.value();
  const Schedule& schedule = step.compilation.schedule();
  const Kinds kinds = find_kinds(schedule);
  const std::vector<HopRow> hops = critical_hops(step, kinds);
  const std::vector<GridRow> grids = grid_rows(step);
  if (options.json) {
    print_out("{}\n", json_text(to_json(step, grids, hops), 1));
    return {};
  }
  print_folded(2, "{} on {}, {}, {}\n", step.compilation.request.checkpoint, step.compilation.machine.name,
               mkrt::counted(schedule.workers, "worker"), symbols_text(step));
  print_folded(2, "{}", step.compilation.machine_said);
  if (options.hops) {
    print_hops(step, hops);
    return {};
  }
  if (step.compilation.search) print_folded(2, "{}\n", search_text(step.compilation));
  print_grids(kind_rows(grids, kinds));
  print_weights(describe_weights(schedule));
  print_folded(2, "{} events, {} counters; weights {} bytes, workspace {}, {} a position of a request\n{}\n",
               schedule.program.events.size(), schedule.event_cells, schedule.weight_bytes,
               schedule.workspace_bytes, position_bytes(schedule.program),
               to_string(step.compilation.proof, schedule));
  return {};
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("explain", "who runs what, why, and what a step waits for");
  auto options = std::make_shared<Options>();
  add_step_options(*command, options->step);
  command->add_flag("--json", options->json, "print JSON: every grid, and the hops");
  command->add_flag("--hops", options->hops, "print the critical hops of the step instead of its grids");
  command->callback([options, &action] { action = [options] { return run_explain(*options); }; });
}

}  // namespace mkc
