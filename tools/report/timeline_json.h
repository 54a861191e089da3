// The report holds timelines in few bytes.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tools/timeline.h"

namespace mkc {

// Bars of a timeline in a report at most. A step of Qwen3-8B on 132 workers has fewer.
constexpr size_t kMaxBars = 300'000;

// Returns {name, workers, joined, rows}. A row is {worker, loader, bars}. `bars` has six numbers for each
// bar, in order of time: 2 * GridId + (1 for a wait), first task, tasks, time since the last bar's end,
// length, and the time within it spent waiting for the ring. Times are whole nanoseconds; on the emulator,
// readings of its clock.
//
// Copies of a loader for one grid, with no time between them, are one bar. Where there are more than
// `max_bars`, neighbours of one grid are joined across gaps of up to `joined` ns.
nlohmann::ordered_json timeline_json(const Timeline& timeline, size_t max_bars = kMaxBars);

// Returns GridId and task of each task on the critical path, in turn.
nlohmann::ordered_json path_json(const SimulatedStep& step);
// Returns GridId and task of each task that waited for an event, then GridId and task of the one that
// notified last, in turn.
nlohmann::ordered_json awaited_json(const SimulatedStep& step);

}  // namespace mkc
