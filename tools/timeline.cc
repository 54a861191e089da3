#include "tools/timeline.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "tools/output.h"

namespace mkc {
namespace {

class Writer {
 public:
  explicit Writer(const TaskProgram& program) {
    for (const TaskGrid& grid : program.grids) {
      names_.push_back(json_text(nlohmann::json(grid.name)));
      waits_.push_back(json_text(nlohmann::json("wait for " + grid.name)));
    }
  }

  void add(uint32_t process, const Timeline& timeline) {
    append("{}{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":{}}}}}",
           process == 0 ? "" : ",\n", process, json_text(nlohmann::json(timeline.name)));
    for (uint32_t w = 0; w < timeline.workers; ++w) {
      name_track(process, 2 * w, fmt::format("worker {}", w));
      name_track(process, 2 * w + 1, fmt::format("worker {} stream", w));
    }
    for (const TimelineSpan& span : timeline.spans)
      if (span.end_us > span.begin_us) add(process, span);
  }

  std::string text() const { return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" + events_ + "\n]}\n"; }

 private:
  template <class... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(events_), format, std::forward<Args>(args)...);
  }

  void name_track(uint32_t process, uint32_t track, const std::string& name) {
    append(",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}}}",
           process, track, json_text(nlohmann::json(name)));
    append(
        ",\n{{\"ph\":\"M\",\"pid\":{0},\"tid\":{1},\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{"
        "1}"
        "}}}}",
        process, track);
  }

  void add(uint32_t process, const TimelineSpan& span) {
    append(
        ",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"name\":{},\"args\":{{"
        "\"task\":{}",
        process, 2 * span.worker + span.loader, span.begin_us, span.end_us - span.begin_us,
        (span.waits ? waits_ : names_)[span.grid.index], span.first);
    if (span.tasks > 1) append(",\"tasks\":{}", span.tasks);
    if (span.ring_us > 0) append(",\"ring_us\":{:.3f}", span.ring_us);
    append("}}}}");
  }

  std::vector<std::string> names_, waits_;  // by GridId, as JSON strings
  std::string events_;
};

// Adds the spans of one track, made from its stamps. `us` is the length of a stamp's unit in microseconds.
void add_track(const mkrt::TraceTrack& track, uint32_t number, double us, std::vector<TimelineSpan>& spans) {
  const uint32_t worker = number / mkrt::kTracks;
  const bool loader = number % mkrt::kTracks != 0;
  uint64_t since = 0;
  uint32_t first = 0;
  for (const mkrt::MkStamp& s : track.stamps) {
    const auto add = [&](bool waits, uint32_t from, uint32_t tasks) {
      spans.push_back({worker, loader, waits, GridId{s.grid}, from, tasks, static_cast<double>(since) * us,
                       static_cast<double>(s.time) * us, s.ring * us});
    };
    if (s.kind == mkrt::kTaskBegun && !loader) add(true, s.task, 1);
    if (s.kind == mkrt::kTaskEnded) add(false, first, s.task - first);
    since = s.time, first = s.task;
  }
}

}  // namespace

std::vector<uint32_t> numbers_in_grids(const std::vector<TaskTime>& tasks) {
  std::vector<uint32_t> numbers;
  for (const TaskTime& task : tasks) {
    const bool next = !numbers.empty() && tasks[numbers.size() - 1].grid == task.grid;
    numbers.push_back(next ? numbers.back() + 1 : 0);
  }
  return numbers;
}

Timeline timeline_of(const SimulatedStep& step) {
  Timeline timeline{"simulated step", step.compilation.schedule().workers, {}};
  const std::vector<TaskTime>& tasks = step.simulation.tasks;
  const std::vector<uint32_t> number = numbers_in_grids(tasks);
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    const TaskTime& task = tasks[i];
    const auto add = [&](bool waits, double begin_ns, double end_ns, double starved_ns) {
      timeline.spans.push_back({task.worker, false, waits, task.grid, number[i], 1, begin_ns / 1e3,
                                end_ns / 1e3, starved_ns / 1e3});
    };
    add(true, task.reached_ns, task.begin_ns, 0);
    add(false, task.begin_ns, task.end_ns, task.starved_ns);
  }
  for (const StreamSpan& s : step.simulation.stream)
    timeline.spans.push_back(
        {s.worker, true, false, tasks[s.task].grid, number[s.task], 1, s.begin_ns / 1e3, s.end_ns / 1e3});
  return timeline;
}

Timeline timeline_of(const mkrt::Trace& trace) {
  const auto tracks = static_cast<uint32_t>(trace.tracks.size());
  Timeline timeline{
      trace.timed ? "measured on " + trace.device : "counted on " + trace.device, tracks / mkrt::kTracks, {}};
  timeline.timed = trace.timed;
  for (uint32_t i = 0; i < tracks; ++i) add_track(trace.tracks[i], i, trace.timed ? 1e-3 : 1, timeline.spans);
  return timeline;
}

std::string chrome_trace(const std::vector<Timeline>& timelines, const TaskProgram& program) {
  Writer writer(program);
  for (uint32_t i = 0; i < timelines.size(); ++i) writer.add(i, timelines[i]);
  return writer.text();
}

}  // namespace mkc
