#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "tools/commands.h"
#include "tools/model_path.h"
#include "tools/output.h"
#include "tools/traced_step.h"

namespace mkc {
namespace {

struct TraceCommand {
  ModelRequest model;
  std::string file, output;
  bool json = false;
};

// Returns a name of the trace file as one line for people. Control characters would change the terminal.
std::string shown(const std::string& name) {
  return has_control(name) ? spell_string(name) : name;
}

void print_purposes(const SimulatedStep& step, const mkrt::Trace& trace,
                    const std::vector<PurposeTime>& rows) {
  print_out("{} on {}, {}; {} stamps lost\n", shown(trace.model), shown(trace.device), symbols_text(step),
            lost_stamps(trace));
  print_out("{:<14}{:>12}{:>14}\n", "", trace.timed ? "measured us" : "stamps", "simulated us");
  for (const auto& [name, found, predicted] : rows)
    print_out("{:<14}{:>12.1f}{:>14.1f}\n", name, found, predicted);
}

void print_purposes_json(const SimulatedStep& step, const mkrt::Trace& trace,
                         const std::vector<PurposeTime>& rows) {
  nlohmann::ordered_json times;
  for (const auto& [name, found, predicted] : rows)
    times[name] = {{trace.timed ? "measured_us" : "stamps", found}, {"simulated_us", predicted}};
  const nlohmann::ordered_json out{{"model", trace.model},
                                   {"device", trace.device},
                                   {"symbols", symbols_json(step)},
                                   {"lost_stamps", lost_stamps(trace)},
                                   {"times", times}};
  print_out("{}\n", json_text(out, 1));
}

Status run_trace(const TraceCommand& o) {
  MKC_TRY_STATUS(check_is_file("-o", o.output));
  if (Status status = check_output(o.output, o.model, {o.file}); !status.ok()) return status;
  const Result<TracedStep> traced = traced_step(o.model, o.file);
  if (!traced.ok()) return traced.error();
  const auto& [trace, step] = traced.value();
  const TaskProgram& program = step.compilation.schedule().program;
  const std::vector<Timeline> timelines{timeline_of(trace), timeline_of(step)};
  const std::vector<PurposeTime> rows = purpose_times(timelines[0], timelines[1], program);
  (o.json ? print_purposes_json : print_purposes)(step, trace, rows);
  if (o.output.empty()) return {};
  const std::string text = chrome_trace(timelines, program);
  return put_out(o.output, std::as_bytes(std::span(text)), true);
}

}  // namespace

void add_trace(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("trace", "what a traced kernel did when, beside the simulated step");
  auto o = std::make_shared<TraceCommand>();
  add_model_options(*command, o->model);
  command->add_option("FILE", o->file, "written by mkc run --trace or mkrun --trace")
      ->type_name("FILE")
      ->required();
  command->add_option("-o", o->output, "write a timeline of all workers, as Perfetto opens it")
      ->type_name("FILE");
  command->add_flag("--json", o->json, "print JSON");
  command->callback([o, &action] { action = [o] { return run_trace(*o); }; });
}

}  // namespace mkc
