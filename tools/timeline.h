// What workers do when, simulated or measured, in one form.
#pragma once

#include "runtime/session/trace.h"
#include "tools/simulated_step.h"

namespace mkc {

struct TimelineSpan {
  uint32_t worker = 0;
  bool loader = false;
  bool waits = false;  // consumers wait for events before a task; else they work, or a loader brings
  GridId grid;
  uint32_t first = 0, tasks = 1;
  double begin_us = 0, end_us = 0;  // of a launch that was counted: stamps
  double ring_us = 0;               // of this: consumers wait for full stages, a loader for free ones
};

struct Timeline {
  std::string name;
  uint32_t workers = 0;
  std::vector<TimelineSpan> spans;
};

// Of a simulation, which kept its stream: for loaders, when the bytes came.
Timeline timeline_of(const SimulatedStep& step);
// Of a launch. What was under way when the stamps end is left out.
Timeline timeline_of(const mkrt::Trace& trace);

// Chrome's trace event format (JSON object form), which Perfetto opens: a process for each timeline, and in
// it for each worker a track of its consumers and one of its loader.
std::string chrome_trace(const std::vector<Timeline>& timelines, const TaskProgram& program);

}  // namespace mkc
