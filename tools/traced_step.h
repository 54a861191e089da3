// A traced launch is compared with the simulated step of its schedule.
#pragma once

#include <string>
#include <vector>

#include "tools/simulated_step.h"
#include "tools/timeline.h"

namespace mkc {

struct TracedStep {
  mkrt::Trace trace;
  SimulatedStep step;  // of the traced launch's requests, with the spans of the stream
};

// Reads a trace file, compiles the model to the schedule that was traced, and simulates the traced step.
// Errors: those of parse_trace, open_model and the passes; a trace of another schedule; requests that do not
// fit the schedule.
Result<TracedStep> traced_step(const ModelRequest& model, const std::string& file);

uint32_t lost_stamps(const mkrt::Trace& trace);

// PurposeTime is the time of consumers for one purpose, as the mean of all workers, in microseconds. A trace
// without times has counts of stamps instead.
struct PurposeTime {
  std::string purpose;  // "all", "events", "ring" or a body
  double found_us = 0, predicted_us = 0;
};

// Returns the times of a traced and of a simulated timeline.
std::vector<PurposeTime> purpose_times(const Timeline& found, const Timeline& predicted,
                                       const TaskProgram& program);

}  // namespace mkc
