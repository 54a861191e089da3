#include <nlohmann/json.hpp>

#include "runtime/base/counted.h"
#include "scheduler/simulate/simulate_path.h"
#include "tools/model_path.h"
#include "tools/output.h"
#include "tools/room.h"
#include "tools/simulated_step.h"
#include "tools/step_figures.h"
#include "tools/timeline.h"

namespace mkc {
namespace {

struct SimulateCommand {
  StepOptions step;
  bool json = false;
  bool no_run_ahead = false, no_fusion = false;
  std::string trace;
};

std::string no_room(const Compilation& c) {
  return why_no_room(c.schedule().weight_bytes, "weights", c.machine.memory_bytes, c.machine.name);
}

void print_text(const SimulatedStep& step, const StepRange& range) {
  const Compilation& c = step.compilation;
  const Simulation& s = step.simulation;
  print_folded(2, "{} on {}, {}, {} (simulated{})\n", c.request.checkpoint, c.machine.name,
               mkrt::counted(c.schedule().workers, "worker"), symbols_text(step),
               c.machine.is_processor() ? "" : ": not run on a GPU");
  print_folded(2, "{}", c.machine_said);
  if (const std::string fault = no_room(c); !fault.empty()) print_out("such a step cannot run: {}\n", fault);
  const auto [fastest, slowest] = range_ns(step, range);
  const auto [smallest, largest] = fraction_range(step, range);
  print_out("step     {:>10.1f} us   {:.1f} to {:.1f} over the ranges of the machine's figures\n", s.ns / 1e3,
            fastest / 1e3, slowest / 1e3);
  print_out("floor    {:>10.1f} us   {} bytes at {} bytes/ns\n", s.floor_ns / 1e3, s.bytes,
            c.machine.stream_bytes_per_ns);
  print_out("fraction {:>10.3f}      {:.3f} to {:.3f} over the ranges\n", fraction(s), smallest, largest);
  print_out("the stream stands still, by cause:\n");
  for (size_t cause = 0; cause < kIdleCauses; ++cause)
    print_out("  {:<10} {:>10.1f} us  {}\n", idle_cause_name(static_cast<IdleCause>(cause)),
              s.idle_ns[cause] / 1e3, idle_cause_text(static_cast<IdleCause>(cause)));
  print_out("  {:<10} {:>10.1f} us  of packed tiles, moved beside the bytes\n", "padding", padding_us(step));
  const PathTimes path = path_times(s, c.schedule().program);
  print_out("the critical path:\n");
  const auto part = [](const char* name, double ns, const char* text) {
    print_out("  {:<10} {:>10.1f} us  {}\n", name, ns / 1e3, text);
  };
  part("signal", path.signal_ns, "notifications and polls");
  part("start", path.start_ns, "first operands, norms");
  part("starved", path.starved_ns, "products that wait for tiles");
  for (const auto& [body, ns] : path.work_ns) part(body_name(body), ns, "work of such tasks");
  part("finish", path.finish_ns, "reductions, stores, barriers");
}

Status run_simulation(const SimulateCommand& options) {
  MKC_TRY_STATUS(check_is_file("--trace", options.trace));
  if (Status status = check_output(options.trace, options.step.model); !status.ok()) return status;
  SimulateOptions how = {
      .stream = !options.trace.empty(), .run_ahead = !options.no_run_ahead, .fused = !options.no_fusion};
  const Result<SimulatedStep> step = simulate_step(options.step, how);
  if (!step.ok()) return step.error();
  how.stream = false;
  const Result<StepRange> range = simulate_range(step.value(), how);
  if (!range.ok()) return range.error();
  if (!options.trace.empty()) {
    const std::string trace =
        chrome_trace({timeline_of(step.value())}, step.value().compilation.schedule().program);
    if (Status status = put_out(options.trace, std::as_bytes(std::span(trace)), true); !status.ok())
      return status;
  }
  if (options.json)
    print_out("{}\n", json_text(to_json(step.value(), range.value()), 1));
  else
    print_text(step.value(), range.value());
  return {};
}

}  // namespace

void add_simulate(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("simulate", "how long a step would take, by a model of the machine");
  auto options = std::make_shared<SimulateCommand>();
  add_step_options(*command, options->step);
  command->add_flag("--json", options->json, "print JSON");
  command->add_flag("--no-run-ahead", options->no_run_ahead,
                    "were copies issued only once their task's waits are over");
  command->add_flag("--no-fusion", options->no_fusion,
                    "were norms, rotations, gates and residuals grids of their own, a hop each");
  command->add_flag("--balance-grids", options->step.balance_grids,
                    "were the streamed bytes of each grid leveled, not those of the step");
  command->add_option("--trace", options->trace, "write a timeline of all workers, as Perfetto opens it")
      ->type_name("FILE");
  command->callback([options, &action] { action = [options] { return run_simulation(*options); }; });
}

}  // namespace mkc
