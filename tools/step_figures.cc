#include "tools/step_figures.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ir/step_symbols.h"
#include "scheduler/simulate/simulate_path.h"

namespace mkc {
namespace {

nlohmann::ordered_json path_shares(const SimulatedStep& step) {
  const PathTimes times = path_times(step.simulation, step.compilation.schedule().program);
  nlohmann::ordered_json path = {{"signal", times.signal_ns / 1e3},
                                 {"start", times.start_ns / 1e3},
                                 {"starved", times.starved_ns / 1e3}};
  for (const auto& [body, ns] : times.work_ns) path[body_name(body)] = ns / 1e3;
  path["finish"] = times.finish_ns / 1e3;
  return path;
}

int64_t batch_of(const SimulatedStep& step) {
  return step.symbols[step_symbols(step.compilation.schedule().program.symbols).requests.index];
}

}  // namespace

double fraction(const Simulation& s) {
  return s.floor_ns / s.ns;
}

std::pair<double, double> range_ns(const SimulatedStep& step, const StepRange& range) {
  return std::minmax({range.fast.ns, step.simulation.ns, range.slow.ns});
}

std::pair<double, double> fraction_range(const SimulatedStep& step, const StepRange& range) {
  return std::minmax({fraction(range.slow), fraction(step.simulation), fraction(range.fast)});
}

double padding_us(const SimulatedStep& step) {
  return static_cast<double>(step.simulation.padding_bytes) / step.compilation.machine.stream_bytes_per_ns /
         1e3;
}

nlohmann::ordered_json to_json(const SimulatedStep& step, const StepRange& range) {
  const Compilation& c = step.compilation;
  const Simulation& s = step.simulation;
  const auto [fastest, slowest] = range_ns(step, range);
  const auto [smallest, largest] = fraction_range(step, range);
  nlohmann::ordered_json idle;
  for (size_t cause = 0; cause < kIdleCauses; ++cause)
    idle[idle_cause_name(static_cast<IdleCause>(cause))] = s.idle_ns[cause] / 1e3;
  return {{"model", c.request.checkpoint},
          {"machine", c.machine.name},
          {"machine_from", machine_from(c)},
          {"workers", c.schedule().workers},
          {"batch", batch_of(step)},
          {"symbols", symbols_json(step)},
          {"us", s.ns / 1e3},
          {"floor_us", s.floor_ns / 1e3},
          {"fraction", fraction(s)},
          {"us_range", {fastest / 1e3, slowest / 1e3}},
          {"fraction_range", {smallest, largest}},
          {"bytes", s.bytes},
          {"weight_bytes", c.schedule().weight_bytes},
          {"memory_bytes", c.machine.memory_bytes},
          {"padding_bytes", s.padding_bytes},
          {"padding_us", padding_us(step)},
          {"stream_idle_us", idle},
          {"critical_path_us", path_shares(step)}};
}

}  // namespace mkc
