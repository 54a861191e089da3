#include <nlohmann/json.hpp>

#include "tools/model_path.h"
#include "tools/output.h"
#include "tools/report/report_data.h"
#include "tools/report/report_page.h"
#include "tools/traced_step.h"

namespace mkc {
namespace {

struct ReportCommand {
  StepOptions step;
  std::string trace, output;
  bool json = false;
};

Result<ReportedStep> reported_step(const ReportCommand& o) {
  ReportedStep reported;
  if (o.trace.empty()) {
    Result<SimulatedStep> step = simulate_step(o.step, {.stream = true});
    if (!step.ok()) return step.error();
    reported.step = std::move(step.value());
  } else {
    Result<TracedStep> traced = traced_step(o.step.model, o.trace);
    if (!traced.ok()) return traced.error();
    reported.step = std::move(traced.value().step);
    reported.trace = std::move(traced.value().trace);
  }
  Result<StepRange> range = simulate_range(reported.step);
  if (!range.ok()) return range.error();
  reported.range = std::move(range.value());
  return reported;
}

Status run_report(const ReportCommand& o) {
  if (o.output.empty() && !o.json) return Error{"mkc: error: -o is required without --json"};
  if (o.json) MKC_TRY_STATUS(check_is_file("-o", o.output, "--json"));
  if (Status status = check_output(o.output, o.step.model, {o.trace}); !status.ok()) return status;
  const Result<ReportedStep> reported = reported_step(o);
  if (!reported.ok()) return reported.error();
  const Result<nlohmann::ordered_json> data = report_data(reported.value());
  if (!data.ok()) return data.error();
  const std::string json = report_text(data.value());
  if (o.json) put_stdout(json + "\n");
  if (o.output.empty()) return {};
  const std::string page = report_page(data.value(), json);
  if (Status status = put_out(o.output, std::as_bytes(std::span(page)), true); !status.ok()) return status;
  if (o.output != "-") print_err("wrote {}: {} bytes\n", o.output, page.size());
  return {};
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("report", "one page of a step: graph, grids, timeline, bytes, memory, proof");
  auto o = std::make_shared<ReportCommand>();
  add_step_options(*command, o->step);
  command->add_option("-o", o->output, "HTML file to write, - for standard output")->type_name("FILE");
  CLI::Option* trace = command
                           ->add_option("--trace", o->trace,
                                        "the measured step that mkc run --trace wrote, beside its simulation")
                           ->type_name("FILE");
  for (const char* of_step : {"--target", "--batch", "--tokens", "--chunk"})
    trace->excludes(command->get_option(of_step));
  command->add_flag("--json", o->json, "print the data of the page as JSON");
  command->callback([o, &action] { action = [o] { return run_report(*o); }; });
}

}  // namespace mkc
