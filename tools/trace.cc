#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "runtime/base/file.h"
#include "tools/artefact.h"
#include "tools/commands.h"
#include "tools/model_path.h"
#include "tools/output.h"
#include "tools/simulated_step.h"
#include "tools/timeline.h"

namespace mkc {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 30;

struct Options {
  ModelRequest model;
  std::string file, output;
  bool json = false;
};

Result<mkrt::Trace> read_trace(const std::string& file) {
  const mkrt::Result<std::string> text = mkrt::read_text(file, kMaxBytes);
  if (!text.ok()) return text.error();
  return mkrt::parse_trace(text.value(), file);
}

Result<Compilation> compile_for_trace(const Options& o, const mkrt::Trace& trace, bool batch_invariant) {
  ModelRequest request = o.model;
  request.options.target = trace.target;
  request.options.batch_invariant = batch_invariant;
  Result<Compilation> opened = open_model(request, false);
  if (!opened.ok()) return opened.error();
  if (Status status = run_passes(opened.value()); !status.ok()) return status.error();
  return opened;
}

// Compiles the model to the schedule that was traced. Error: the schedule is another one.
Result<Compilation> compile_again(const Options& o, const mkrt::Trace& trace) {
  // Without the option, mkc run makes a batch-invariant schedule and mkc compile makes another one.
  const std::optional<bool> asked = o.model.options.batch_invariant;
  std::string found;
  for (const bool batch_invariant : {true, false}) {
    if (asked && *asked != batch_invariant) continue;
    Result<Compilation> opened = compile_for_trace(o, trace, batch_invariant);
    if (!opened.ok()) return opened;
    found = identify(opened.value()).schedule_hash;
    if (found == trace.schedule_hash) return opened;
  }
  return Error{fmt::format("{}: error: is of a {} with schedule {}, found {} for {} by these options", o.file,
                           trace.model, trace.schedule_hash, found, o.model.model)};
}

// Returns the requests of the traced step. Errors: more or longer requests than the schedule allows.
Result<std::vector<StepRequest>> requests_of(const Options& o, const mkrt::Trace& trace,
                                             const Symbols& symbols) {
  std::vector<StepRequest> requests;
  int64_t tokens = 0;
  const StepSymbols step = step_symbols(symbols);
  const auto max = [&](SymbolId id) { return symbols[id].bounds.hi; };
  bool fits = true;
  for (const mkrt::TracedRequest& r : trace.requests) {
    requests.push_back({r.rows, r.kv_len});
    tokens += r.rows;
    fits &= r.rows >= 1 && r.rows <= r.kv_len && r.kv_len <= max(step.kv_len);
  }
  if (fits && !requests.empty() && tokens <= max(step.tokens) && std::ssize(requests) <= max(step.requests))
    return requests;
  return Error{fmt::format("{}: error: {} requests of {} tokens do not fit the schedule", o.file,
                           requests.size(), tokens)};
}

// Times divides the time of consumers by purpose, in microseconds, as the mean of all workers.
struct Times {
  double all = 0, events = 0, ring = 0;
  std::map<BodyKind, double> work;
};

Times times_of(const Timeline& timeline, const TaskProgram& program) {
  Times times;
  for (const TimelineSpan& span : timeline.spans) {
    times.all = std::max(times.all, span.end_us);
    const double us = (span.end_us - span.begin_us) / timeline.workers;
    if (span.loader) continue;
    const double ring_us = span.ring_us / timeline.workers;
    times.ring += ring_us;
    (span.waits ? times.events : times.work[program.grids[span.grid].body]) += us - ring_us;
  }
  return times;
}

uint32_t lost_stamps(const mkrt::Trace& trace) {
  return std::accumulate(trace.tracks.begin(), trace.tracks.end(), 0u,
                         [](uint32_t sum, const mkrt::TraceTrack& t) { return sum + t.lost; });
}

// A Row has a name, the time found and the time predicted, in microseconds.
using Row = std::tuple<std::string, double, double>;

std::vector<Row> rows_of(const Times& found, const Times& predicted) {
  std::vector<Row> rows{{"all", found.all, predicted.all},
                        {"events", found.events, predicted.events},
                        {"ring", found.ring, predicted.ring}};
  for (const auto& [body, us] : predicted.work) {
    const auto at = found.work.find(body);
    rows.emplace_back(body_name(body), at == found.work.end() ? 0 : at->second, us);
  }
  return rows;
}

void print_times(const SimulatedStep& step, const mkrt::Trace& trace, const std::vector<Row>& rows) {
  print_out("{} on {}, {}; {} stamps lost\n", trace.model, trace.device, symbols_text(step),
            lost_stamps(trace));
  print_out("{:<14}{:>12}{:>14}\n", "", trace.timed ? "measured us" : "stamps", "simulated us");
  for (const auto& [name, found, predicted] : rows)
    print_out("{:<14}{:>12.1f}{:>14.1f}\n", name, found, predicted);
}

void print_json(const SimulatedStep& step, const mkrt::Trace& trace, const std::vector<Row>& rows) {
  nlohmann::ordered_json times;
  for (const auto& [name, found, predicted] : rows)
    times[name] = {{trace.timed ? "measured_us" : "stamps", found}, {"simulated_us", predicted}};
  const nlohmann::ordered_json out{{"model", trace.model},
                                   {"device", trace.device},
                                   {"symbols", symbols_json(step)},
                                   {"lost_stamps", lost_stamps(trace)},
                                   {"times", times}};
  print_out("{}\n", out.dump(1));
}

Status run(const Options& o) {
  if (Status status = check_output(o.output, o.model); !status.ok()) return status;
  Result<mkrt::Trace> trace = read_trace(o.file);
  if (!trace.ok()) return trace.error();
  Result<Compilation> compilation = compile_again(o, trace.value());
  if (!compilation.ok()) return compilation.error();
  auto requests = requests_of(o, trace.value(), compilation.value().schedule().program.symbols);
  if (!requests.ok()) return requests.error();
  const Result<SimulatedStep> step =
      simulate_step(std::move(compilation.value()), requests.value(), {.stream = true});
  if (!step.ok()) return step.error();
  const TaskProgram& program = step.value().compilation.schedule().program;
  const std::vector<Timeline> timelines{timeline_of(trace.value()), timeline_of(step.value())};
  const std::vector<Row> rows = rows_of(times_of(timelines[0], program), times_of(timelines[1], program));
  (o.json ? print_json : print_times)(step.value(), trace.value(), rows);
  if (o.output.empty()) return {};
  const std::string text = chrome_trace(timelines, program);
  return put_out(o.output, std::as_bytes(std::span(text)), true);
}

}  // namespace

void add_trace(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("trace", "what a traced kernel did when, beside the simulated step");
  auto o = std::make_shared<Options>();
  add_model_options(*command, o->model);
  command->add_option("FILE", o->file, "written by mkc run --trace or mkrun --trace")
      ->type_name("FILE")
      ->required();
  command->add_option("-o", o->output, "write a timeline of all workers, as Perfetto opens it")
      ->type_name("FILE");
  command->add_flag("--json", o->json, "print JSON");
  command->callback([o, &action] { action = [o] { return run(*o); }; });
}

}  // namespace mkc
