#include "tools/report/report_data.h"

#include <nlohmann/json.hpp>

#include "scheduler/simulate/simulate_path.h"
#include "tools/artefact.h"
#include "tools/certificate.h"
#include "tools/grid_table.h"
#include "tools/report/layer_graph.h"
#include "tools/report/memory_json.h"
#include "tools/report/timeline_json.h"
#include "tools/step_figures.h"
#include "tools/traced_step.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

ordered_json limits_json(const mkrt::Certificate& certificate) {
  ordered_json limits = ordered_json::array();
  for (const mkrt::Certificate::Bounds& b : certificate.symbols)
    limits.push_back({{"symbol", b.symbol}, {"lo", b.lo}, {"hi", b.hi}});
  return limits;
}

ordered_json proof_json(const Compilation& c, const mkrt::Certificate& certificate) {
  return {{"verdict", certificate.verdict},
          {"text", to_string(c.proof, c.schedule())},
          {"symbolic", c.proof.symbolic},
          {"enumerated", c.proof.enumerated},
          {"lemmas", c.proof.lemmas},
          {"schedule", identify(c).schedule_hash},
          {"events", c.schedule().program.events.size()},
          {"counters", c.schedule().event_cells}};
}

ordered_json causes_json(const Simulation& s) {
  ordered_json causes = ordered_json::array();
  for (size_t i = 0; i < kIdleCauses; ++i) {
    const auto cause = static_cast<IdleCause>(i);
    causes.push_back(
        {{"cause", idle_cause_name(cause)}, {"text", idle_cause_text(cause)}, {"us", s.idle_ns[i] / 1e3}});
  }
  return causes;
}

// Returns the time of each grid's tasks on the critical path, by GridId. A task takes what lies between the
// end of the task before it on the path and its own. The times make up the step.
std::vector<double> path_ns(const SimulatedStep& step) {
  std::vector<double> ns(step.compilation.schedule().program.grids.size());
  double at_ns = 0;
  for (const PathTask& p : critical_path(step.simulation)) {
    const TaskTime& task = step.simulation.tasks[p.task];
    ns[task.grid.index] += task.end_ns - at_ns;
    at_ns = task.end_ns;
  }
  return ns;
}

// Returns the time that consumers spend in each grid's tasks, without waits for events, by GridId. It is the
// mean of all workers in microseconds.
std::vector<double> busy_us(const Timeline& timeline, size_t grids) {
  std::vector<double> us(grids);
  for (const TimelineSpan& span : timeline.spans)
    if (!span.loader && !span.waits) us[span.grid.index] += (span.end_us - span.begin_us) / timeline.workers;
  return us;
}

// GridTimes are the times of each grid, by GridId.
struct GridTimes {
  std::vector<double> path_ns;               // on the critical path
  std::vector<std::vector<double>> busy_us;  // of each timeline
};

GridTimes grid_times(const SimulatedStep& step, const std::vector<Timeline>& timelines) {
  GridTimes times{path_ns(step), {}};
  for (const Timeline& timeline : timelines) times.busy_us.push_back(busy_us(timeline, times.path_ns.size()));
  return times;
}

// Adds the times of some grids to the JSON of a row.
void add_times(ordered_json& row, const GridTimes& times, const std::vector<uint32_t>& grids) {
  const auto sum = [&](const std::vector<double>& by_grid) {
    double all = 0;
    for (const uint32_t g : grids) all += by_grid[g];
    return all;
  };
  row["path_us"] = sum(times.path_ns) / 1e3;
  row["busy"] = ordered_json::array();
  for (const std::vector<double>& us : times.busy_us) row["busy"].push_back(sum(us));
}

ordered_json kinds_json(const SimulatedStep& step, const std::vector<GridRow>& grids, const Kinds& kinds,
                        const GridTimes& times) {
  std::vector<std::vector<uint32_t>> members(kinds.first.size());
  for (uint32_t g = 0; g < kinds.of_grid.size(); ++g) members[kinds.of_grid[g]].push_back(g);
  const std::vector<GridRow> rows = kind_rows(grids, kinds);
  ordered_json out = ordered_json::array();
  for (size_t k = 0; k < rows.size(); ++k) {
    ordered_json row = to_json(rows[k]);
    row["body"] = body_name(step.compilation.schedule().program.grids[kinds.first[k]].body);
    row["alike"] = rows[k].grids;
    add_times(row, times, members[k]);
    out.push_back(std::move(row));
  }
  return out;
}

ordered_json grids_json(const std::vector<GridRow>& grids, const Kinds& kinds, const GridTimes& times) {
  ordered_json out = ordered_json::array();
  for (uint32_t g = 0; g < grids.size(); ++g) {
    out.push_back({{"grid", grids[g].name},
                   {"kind", kinds.of_grid[g]},
                   {"tasks", grids[g].tasks},
                   {"bytes", grids[g].bytes}});
    add_times(out.back(), times, {g});
  }
  return out;
}

ordered_json trace_json(const ReportedStep& r, const std::vector<Timeline>& timelines) {
  if (!r.trace) return nullptr;
  const mkrt::Trace& trace = *r.trace;
  ordered_json times = ordered_json::array();
  for (const PurposeTime& t :
       purpose_times(timelines[0], timelines[1], r.step.compilation.schedule().program))
    times.push_back({{"purpose", t.purpose}, {"found", t.found_us}, {"simulated_us", t.predicted_us}});
  return {{"device", trace.device}, {"timed", trace.timed}, {"lost", lost_stamps(trace)}, {"times", times}};
}

}  // namespace

Result<ordered_json> report_data(const ReportedStep& r) {
  const Compilation& c = r.step.compilation;
  const Result<OpGraph> ops = op_graph_of(c);
  if (!ops.ok()) return ops.error();
  const Kinds kinds = find_kinds(c.schedule());
  const mkrt::Certificate certificate = certify(c);
  std::vector<Timeline> timelines;
  if (r.trace) timelines.push_back(timeline_of(*r.trace));
  timelines.push_back(timeline_of(r.step));
  const std::vector<GridRow> grids = grid_rows(r.step);
  const GridTimes times = grid_times(r.step, timelines);
  ordered_json data{{"version", version_text()},
                    {"family", c.request.family.name},
                    {"target", c.request.target},
                    {"gpu", c.machine.is_gpu()},
                    {"step_text", symbols_text(r.step)},
                    {"limits", limits_json(certificate)},
                    {"step", to_json(r.step, r.range)},
                    {"causes", causes_json(r.step.simulation)},
                    {"trace", trace_json(r, timelines)},
                    {"kinds", kinds_json(r.step, grids, kinds, times)},
                    {"grids", grids_json(grids, kinds, times)},
                    {"graph", layer_graph_json(r.step, ops.value(), kinds)},
                    {"memory", memory_json(c)},
                    {"proof", proof_json(c, certificate)}};
  for (const Timeline& timeline : timelines) data["timelines"].push_back(timeline_json(timeline));
  data["path"] = path_json(r.step);
  data["awaited"] = awaited_json(r.step);
  return data;
}

}  // namespace mkc
