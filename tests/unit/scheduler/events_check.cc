#include "tests/unit/scheduler/events_check.h"

#include <fmt/format.h>

#include <boost/dynamic_bitset.hpp>
#include <map>

namespace mkc::test {
namespace {

using TaskSet = boost::dynamic_bitset<>;
using Index = std::vector<int64_t>;

// Returns all index vectors of a box, in row-major order.
std::vector<Index> indices(const Index& lo, const Index& size) {
  std::vector<Index> out = {{}};
  for (size_t d = 0; d < lo.size(); ++d) {
    std::vector<Index> longer;
    for (const Index& at : out)
      for (int64_t i = lo[d]; i < lo[d] + size[d]; ++i) {
        longer.push_back(at);
        longer.back().push_back(i);
      }
    out = std::move(longer);
  }
  return out;
}

struct Task {
  GridId grid;
  Index coords;
};

struct Checker {
  const TaskProgram& program;
  const Index& symbols;
  std::vector<Task> tasks{};
  std::map<std::pair<uint32_t, Index>, std::vector<size_t>> notifiers{};  // tasks by event and cell
  std::vector<TaskSet> finished{};  // for each task: all tasks that finish before it

  std::vector<Index> region(const Region& r, const Index& coords) const {
    Index lo, size;
    for (const Range& range : r) {
      lo.push_back(evaluate(range.offset, symbols, coords));
      size.push_back(evaluate(range.size, symbols, coords));
    }
    return indices(lo, size);
  }

  std::vector<Index> cells(const Event& event) const {
    Index size;
    for (const Expr& dim : event.dims) size.push_back(evaluate(dim, symbols));
    return indices(Index(size.size(), 0), size);
  }

  void list_tasks() {
    for (GridId g : program.grids.ids()) {
      Index at;
      list_tasks(g, at);
    }
  }

  // Appends the tasks whose first coordinates are `at`.
  void list_tasks(GridId g, Index& at) {
    const std::vector<Coord>& coords = program.grids[g].coords;
    if (at.size() == coords.size()) return tasks.push_back({g, at});
    const int64_t extent = evaluate(coords[at.size()].extent, symbols, at);
    for (int64_t i = 0; i < extent; ++i) {
      at.push_back(i);
      list_tasks(g, at);
      at.pop_back();
    }
  }

  std::string check_counts() {
    for (size_t t = 0; t < tasks.size(); ++t)
      for (const Notify& n : program.grids[tasks[t].grid].notifies)
        for (const Index& cell : region(n.cells, tasks[t].coords))
          notifiers[{n.event.index, cell}].push_back(t);
    size_t known = 0;
    for (EventId e : program.events.ids())
      for (const Index& cell : cells(program.events[e])) {
        const auto found = notifiers.find({e.index, cell});
        known += found != notifiers.end();
        const size_t count = found == notifiers.end() ? 0 : found->second.size();
        const int64_t expected = evaluate(program.events[e].expect, symbols, cell);
        if (expected != static_cast<int64_t>(count))
          return fmt::format("a cell of @{} expects {} of {}", program.events[e].name, expected, count);
      }
    return known == notifiers.size() ? "" : "a task notifies a cell outside its event";
  }

  void order() {
    finished.assign(tasks.size(), TaskSet(tasks.size()));
    for (size_t t = 0; t < tasks.size(); ++t)
      for (const Wait& wait : program.grids[tasks[t].grid].waits) {
        Index cell;
        for (const Expr& e : wait.cell) cell.push_back(evaluate(e, symbols, tasks[t].coords));
        for (size_t n : notifiers[{wait.event.index, cell}]) finished[t] |= finished[n], finished[t].set(n);
      }
  }

  std::string check_elements() const {
    struct Element {
      std::vector<size_t> writers, readers;  // `readers` are those since the last write
    };
    std::map<uint32_t, std::map<Index, Element>> elements;  // elements of written tensors, by TensorId
    for (const TaskGrid& grid : program.grids)
      for (const Access& a : grid.writes) elements[a.tensor.index];
    std::string fault;
    const auto after = [&](size_t t, const std::vector<size_t>& others) {
      for (size_t other : others)
        if (other != t && !finished[t][other] && fault.empty())
          fault = fmt::format("%{} does not wait for %{}", program.grids[tasks[t].grid].name,
                              program.grids[tasks[other].grid].name);
    };
    for (size_t t = 0; t < tasks.size() && fault.empty(); ++t) {
      const TaskGrid& grid = program.grids[tasks[t].grid];
      for (const Access& a : grid.reads) {
        if (!elements.contains(a.tensor.index)) continue;
        const bool overwritten = program.tensors[a.tensor].kind == TensorKind::kCache;
        for (const Index& at : region(a.region, tasks[t].coords)) {
          Element& element = elements[a.tensor.index][at];
          after(t, element.writers);
          if (overwritten) element.readers.push_back(t);
        }
      }
      for (const Access& a : grid.writes)
        for (const Index& at : region(a.region, tasks[t].coords)) {
          Element& element = elements[a.tensor.index][at];
          after(t, element.writers), after(t, element.readers);
          element = {{t}, {}};
        }
    }
    return fault;
  }
};

}  // namespace

std::string event_fault(const TaskProgram& program, const std::vector<int64_t>& symbols) {
  Checker checker{program, symbols};
  checker.list_tasks();
  if (std::string fault = checker.check_counts(); !fault.empty()) return fault;
  checker.order();
  return checker.check_elements();
}

}  // namespace mkc::test
