#include "scheduler/proof/value_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "scheduler/machine/order.h"

namespace mkc {
namespace {

// Nodes numbers the nodes of the dependence graph: runs, then claimed grids, then inline tasks, then cells.
// Any worker may run a claimed task, so all tasks of a claimed grid are one node. The node of a claimed grid
// follows the run of each worker before the grid and precedes the run of each worker behind it.
struct Nodes {
  const Step& step;
  uint32_t claimed_begin, inline_begin, cell_begin, count;

  explicit Nodes(const Step& s)
      : step(s),
        claimed_begin(static_cast<uint32_t>(s.runs.size())),
        inline_begin(claimed_begin + static_cast<uint32_t>(s.claimed_grids.size())),
        cell_begin(inline_begin + static_cast<uint32_t>(s.inline_tasks.size())),
        count(cell_begin + s.cell_base.back()) {}

  // Returns the first task and the number of tasks of a node below cell_begin. A claimed run has no tasks of
  // its own.
  std::pair<uint32_t, uint32_t> tasks(uint32_t node) const {
    if (node >= inline_begin) return {step.inline_tasks[node - inline_begin], 1};
    const GridId grid =
        node >= claimed_begin ? step.claimed_grids[node - claimed_begin] : step.runs[node].grid;
    const uint32_t first = step.task_base[grid.index];
    if (node >= claimed_begin) return {first, step.task_base[grid.index + 1] - first};
    const Run& run = step.runs[node];
    return {first + run.first, run.claimed ? 0 : run.count};
  }

  uint32_t claimed_node(GridId grid) const {
    const auto at = std::lower_bound(step.claimed_grids.begin(), step.claimed_grids.end(), grid);
    return claimed_begin + static_cast<uint32_t>(at - step.claimed_grids.begin());
  }

  std::string name(uint32_t node) const {
    if (node >= cell_begin) return cell_name(step, node - cell_begin);
    const auto [first, count_of_node] = tasks(node);
    if (node >= inline_begin) return task_name(step, first);
    const std::string last =
        count_of_node > 1 ? fmt::format("..{}", task_name(step, first + count_of_node - 1)) : "";
    const std::string tasks_text = task_name(step, first) + last;
    if (node >= claimed_begin) return fmt::format("{} on any worker", tasks_text);
    return fmt::format("{} on worker {}", tasks_text, step.runs[node].worker);
  }
};

using Edges = std::vector<std::pair<uint32_t, uint32_t>>;

Edges dependence_edges(const Nodes& nodes) {
  const Step& step = nodes.step;
  Edges edges;
  const auto add = [&](uint32_t from, uint32_t to) {
    if (edges.empty() || edges.back() != std::pair(from, to)) edges.emplace_back(from, to);
  };
  for (uint32_t node = 0; node < nodes.cell_begin; ++node) {
    const auto [first, count] = nodes.tasks(node);
    for (uint32_t i = step.waits.begin[first]; i < step.waits.begin[first + count]; ++i)
      add(nodes.cell_begin + step.waits.cells[i], node);
    for (uint32_t i = step.notifies.begin[first]; i < step.notifies.begin[first + count]; ++i)
      add(node, nodes.cell_begin + step.notifies.cells[i]);
    if (node >= nodes.claimed_begin) continue;
    const Run& run = step.runs[node];
    const uint32_t end = run.claimed ? nodes.claimed_node(run.grid) : node;
    if (run.claimed) add(node, end);
    const bool continues = node + 1 < nodes.claimed_begin && step.runs[node + 1].worker == run.worker;
    if (continues) add(end, node + 1);
  }
  return edges;
}

Error value_cycle_error(const Nodes& nodes, const std::vector<uint32_t>& cycle) {
  // The cycle begins with its smallest node, so that the text does not depend on the search.
  std::vector<uint32_t> from_min = cycle;
  std::rotate(from_min.begin(), std::min_element(from_min.begin(), from_min.end()), from_min.end());
  from_min.push_back(from_min.front());
  std::string text = nodes.name(from_min[0]);
  for (size_t i = 1; i < from_min.size(); ++i) {
    const bool notifies = from_min[i] >= nodes.cell_begin, waits = from_min[i - 1] >= nodes.cell_begin;
    text += fmt::format(" -{}-> {}",
                        notifies ? "notify"
                        : waits  ? "wait"
                                 : "stream",
                        nodes.name(from_min[i]));
  }
  return step_error(nodes.step, {Part::kHeader}, "deadlock: " + text);
}

// Merges `from` into `into`. Returns false if `into` already contained all of it.
bool join(std::vector<uint32_t>& into, const std::vector<uint32_t>& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  bool grew = false;
  for (size_t i = 0; i < from.size(); ++i) {
    grew |= from[i] > into[i];
    into[i] = std::max(into[i], from[i]);
  }
  return grew;
}

class Historian {
 public:
  explicit Historian(const Step& step)
      : step_(step),
        cells_(step.cell_base.back()),
        joined_(step.cell_base.back()),
        tail_(step.schedule->workers) {
    const size_t tasks = step.grid_of.size();
    order_.chain.resize(tasks), order_.place.resize(tasks), order_.history.resize(tasks);
    order_.histories.emplace_back();
    current_.resize(step.schedule->workers, 0);
  }

  void run_task(uint32_t task, uint32_t worker) {
    for (uint32_t i = step_.waits.begin[task]; i < step_.waits.begin[task + 1]; ++i) {
      if (joined_history(step_.waits.cells[i], worker)) continue;
      std::vector<uint32_t> history = order_.histories[current_[worker]];
      if (!join(history, cells_[step_.waits.cells[i]])) continue;
      current_[worker] = static_cast<uint32_t>(order_.histories.size());
      order_.histories.push_back(std::move(history));
    }
    put(task, worker, current_[worker]);
  }

  // Tasks [first, end) may run on any worker, so only their events order them. Tasks with the same waits and
  // notifications share a place on a chain. A task that sees one of them done does so by a cell that they all
  // notify, so it sees all of them done.
  void run_claimed(uint32_t first, uint32_t end) {
    while (first < end) {
      uint32_t group_end = first + 1;
      while (group_end < end && same_cells(step_.waits, first, group_end) &&
             same_cells(step_.notifies, first, group_end))
        ++group_end;
      const auto history = static_cast<uint32_t>(order_.histories.size());
      order_.histories.emplace_back();
      for (uint32_t i = step_.waits.begin[first]; i < step_.waits.begin[first + 1]; ++i)
        join(order_.histories.back(), cells_[step_.waits.cells[i]]);
      const std::vector<uint32_t>& reached = order_.histories.back();
      uint32_t chain = step_.schedule->workers;
      while (chain < tail_.size() && (chain >= reached.size() || reached[chain] < tail_[chain])) ++chain;
      if (chain == tail_.size()) tail_.push_back(0);
      put(first, chain, history);
      for (uint32_t task = first + 1; task < group_end; ++task) {
        order_.chain[task] = chain;
        order_.place[task] = order_.place[first];
        order_.history[task] = history;
      }
      first = group_end;
    }
  }

  HappensBefore take() { return std::move(order_); }

 private:
  struct Notifier {
    uint32_t chain = UINT32_MAX, history = UINT32_MAX;
    bool operator==(const Notifier&) const = default;
  };

  static bool same_cells(const TaskCells& cells, uint32_t a, uint32_t b) {
    const auto at = [&](uint32_t task) { return cells.cells.begin() + cells.begin[task]; };
    return std::equal(at(a), at(a + 1), at(b), at(b + 1));
  }

  // Tells whether the worker's last wait was for this cell.
  bool joined_history(uint32_t cell, uint32_t worker) {
    if (last_wait_.size() < step_.schedule->workers) last_wait_.resize(step_.schedule->workers, UINT32_MAX);
    return std::exchange(last_wait_[worker], cell) == cell;
  }

  void put(uint32_t task, uint32_t chain, uint32_t history) {
    order_.chain[task] = chain;
    order_.place[task] = ++tail_[chain];
    order_.history[task] = history;
    for (uint32_t i = step_.notifies.begin[task]; i < step_.notifies.begin[task + 1]; ++i) {
      const uint32_t cell = step_.notifies.cells[i];
      if (std::exchange(joined_[cell], Notifier{chain, history}) != Notifier{chain, history})
        join(cells_[cell], order_.histories[history]);
      if (cells_[cell].size() <= chain) cells_[cell].resize(chain + 1, 0);
      cells_[cell][chain] = std::max(cells_[cell][chain], order_.place[task]);
    }
  }

  const Step& step_;
  HappensBefore order_;
  std::vector<std::vector<uint32_t>> cells_;  // by cell: what has happened once the cell is complete
  std::vector<Notifier> joined_;              // by cell: the task whose history was merged last
  std::vector<uint32_t> tail_;                // by chain: number of places on it
  std::vector<uint32_t> current_;             // by worker: its current history
  std::vector<uint32_t> last_wait_;           // by worker: cell of its last wait
};

}  // namespace

Result<HappensBefore> order_tasks(const Step& step) {
  const Nodes nodes(step);
  const TopologicalOrder sorted = topological_order(nodes.count, dependence_edges(nodes));
  if (!sorted.cycle.empty()) return value_cycle_error(nodes, sorted.cycle);
  Historian historian(step);
  for (uint32_t node : sorted.order) {
    if (node >= nodes.cell_begin) continue;
    const auto [first, count] = nodes.tasks(node);
    if (node >= nodes.claimed_begin) {
      historian.run_claimed(first, first + count);
      continue;
    }
    for (uint32_t t = first; t < first + count; ++t) historian.run_task(t, step.runs[node].worker);
  }
  return historian.take();
}

}  // namespace mkc
