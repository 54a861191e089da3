#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/step_request.h"
#include "tools/timeline.h"

namespace mkc {
namespace {

struct Options {
  StepRequest step;
  bool json = false;
  std::string trace;
};

nlohmann::ordered_json to_json(const SimulatedStep& step, int64_t batch) {
  const Compilation& c = step.compilation;
  const Simulation& s = step.simulation;
  nlohmann::ordered_json idle;
  for (size_t cause = 0; cause < kIdleCauses; ++cause)
    idle[idle_cause_name(static_cast<IdleCause>(cause))] = s.idle_ns[cause] / 1e3;
  return {{"model", c.request.checkpoint},
          {"machine", c.machine.name},
          {"workers", c.schedule().workers},
          {"batch", batch},
          {"symbols", symbols_json(step)},
          {"us", s.ns / 1e3},
          {"floor_us", s.floor_ns / 1e3},
          {"fraction", s.floor_ns / s.ns},
          {"bytes", s.bytes},
          {"padding_bytes", s.padding_bytes},
          {"stream_idle_us", idle}};
}

void print_text(const SimulatedStep& step) {
  const Compilation& c = step.compilation;
  const Simulation& s = step.simulation;
  fmt::print("{} on {}, {} workers, {} (simulated: not run on a GPU)\n", c.request.checkpoint, c.machine.name,
             c.schedule().workers, symbols_text(step));
  fmt::print("step     {:>10.1f} us\nfloor    {:>10.1f} us   {} bytes at {} bytes/ns\n", s.ns / 1e3,
             s.floor_ns / 1e3, s.bytes, c.machine.stream_bytes_per_ns);
  fmt::print("fraction {:>10.3f}\nthe stream stands still, by cause:\n", s.floor_ns / s.ns);
  for (size_t cause = 0; cause < kIdleCauses; ++cause)
    fmt::print("  {:<10} {:>10.1f} us  {}\n", idle_cause_name(static_cast<IdleCause>(cause)),
               s.idle_ns[cause] / 1e3, idle_cause_text(static_cast<IdleCause>(cause)));
  if (s.padding_bytes > 0)
    fmt::print("padding of packed tiles: {:.1f} us\n",
               static_cast<double>(s.padding_bytes) / c.machine.stream_bytes_per_ns / 1e3);
}

Status run(const Options& options) {
  const Result<SimulatedStep> step = simulate_step(options.step, {.stream = !options.trace.empty()});
  if (!step.ok()) return step.error();
  if (!options.trace.empty()) {
    const std::string trace = chrome_trace(step.value());
    if (Status status = put_out(options.trace, std::as_bytes(std::span(trace)), true); !status.ok())
      return status;
  }
  if (options.json)
    fmt::print("{}\n", to_json(step.value(), options.step.batch).dump(1));
  else
    print_text(step.value());
  return {};
}

}  // namespace

void add_simulate(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("simulate", "how long a step would take, by a model of the machine");
  auto options = std::make_shared<Options>();
  add_step_options(*command, options->step);
  command->add_flag("--json", options->json, "print JSON");
  command->add_option("--trace", options->trace, "write a timeline of all workers, as Perfetto opens it");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace mkc
