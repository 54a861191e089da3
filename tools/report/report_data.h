// The data of a report are JSON for the page: a step of a model, its schedule and its memory.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "tools/simulated_step.h"
#include "tools/timeline.h"

namespace mkc {

struct ReportedStep {
  SimulatedStep step;  // with the spans of the stream
  StepRange range;
  std::optional<mkrt::Trace> trace;  // of a launch of this step
};

// Returns the data of the page (docs/report.md). Requires a step whose passes have all run. Errors: those of
// op_graph_of.
Result<nlohmann::ordered_json> report_data(const ReportedStep& reported);

}  // namespace mkc
