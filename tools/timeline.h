// Timelines of workers have one form, whether simulated or measured.
#pragma once

#include "runtime/session/trace.h"
#include "tools/simulated_step.h"

namespace mkc {

struct TimelineSpan {
  uint32_t worker = 0;
  bool loader = false;
  bool waits = false;  // consumers wait for events before a task; else they work, or a loader loads
  GridId grid;
  uint32_t first = 0, tasks = 1;
  double begin_us = 0, end_us = 0;  // microseconds; on the emulator, readings of its clock
  double ring_us = 0;               // waits within the span: consumers for full stages, loaders for free ones
};

struct Timeline {
  std::string name;
  uint32_t workers = 0;
  std::vector<TimelineSpan> spans;
  bool timed = true;  // false: times are readings of the emulator's clock
};

// Returns the number of each simulated task in its grid.
std::vector<uint32_t> numbers_in_grids(const std::vector<TaskTime>& tasks);

// Returns the timeline of a simulated step. Spans of loaders are the times at which bytes arrived. Requires
// SimulateOptions::stream for them.
Timeline timeline_of(const SimulatedStep& step);
// Returns the timeline of a traced launch. Spans that have no end stamp are left out.
Timeline timeline_of(const mkrt::Trace& trace);

// Returns the timelines in Chrome's trace event format (JSON object form), which Perfetto opens. Each
// timeline is a process. Each worker has a track of its consumers and a track of its loader.
std::string chrome_trace(const std::vector<Timeline>& timelines, const TaskProgram& program);

}  // namespace mkc
