#include "tools/timeline.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

namespace mkc {
namespace {

class Writer {
 public:
  explicit Writer(const SimulatedStep& step) : step_(step) {
    for (const TaskGrid& grid : program().grids) {
      names_.push_back(nlohmann::json(grid.name).dump());
      waits_.push_back(nlohmann::json("wait for " + grid.name).dump());
    }
    for (const TaskTime& task : step.simulation.tasks) {
      const bool next = !number_.empty() && step.simulation.tasks[number_.size() - 1].grid == task.grid;
      number_.push_back(next ? number_.back() + 1 : 0);
    }
  }

  std::string text() {
    append("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    append("{{\"ph\":\"M\",\"pid\":0,\"name\":\"process_name\",\"args\":{{\"name\":\"simulated step\"}}}}");
    for (uint32_t w = 0; w < step_.compilation.schedule().workers; ++w) {
      name_track(2 * w, fmt::format("worker {}", w));
      name_track(2 * w + 1, fmt::format("worker {} stream", w));
    }
    for (uint32_t task = 0; task < step_.simulation.tasks.size(); ++task) {
      const TaskTime& time = step_.simulation.tasks[task];
      span(2 * time.worker, waits_[time.grid.index], task, time.reached_ns, time.begin_ns);
      span(2 * time.worker, names_[time.grid.index], task, time.begin_ns, time.end_ns);
    }
    for (const StreamSpan& s : step_.simulation.stream)
      span(2 * s.worker + 1, names_[step_.simulation.tasks[s.task].grid.index], s.task, s.begin_ns, s.end_ns);
    append("\n]}}\n");
    return std::move(text_);
  }

 private:
  const TaskProgram& program() const { return step_.compilation.schedule().program; }

  template <class... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void name_track(uint32_t track, const std::string& name) {
    append(",\n{{\"ph\":\"M\",\"pid\":0,\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":\"{}\"}}}}",
           track, name);
    append(
        ",\n{{\"ph\":\"M\",\"pid\":0,\"tid\":{0},\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{0}"
        "}}}}",
        track);
  }

  void span(uint32_t track, const std::string& name, uint32_t task, double begin_ns, double end_ns) {
    if (end_ns <= begin_ns) return;
    append(
        ",\n{{\"ph\":\"X\",\"pid\":0,\"tid\":{},\"ts\":{:.3f},\"dur\":{:.3f},\"name\":{},\"args\":{{\"task\":"
        "{}}}}}",
        track, begin_ns / 1e3, (end_ns - begin_ns) / 1e3, name, number_[task]);
  }

  const SimulatedStep& step_;
  std::vector<std::string> names_, waits_;  // by GridId, quoted
  std::vector<uint32_t> number_;            // by task, in its grid
  std::string text_;
};

}  // namespace

std::string chrome_trace(const SimulatedStep& step) {
  return Writer(step).text();
}

}  // namespace mkc
