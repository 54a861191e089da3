#include "scheduler/proof/value_accesses.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "scheduler/proof/boxes.h"

namespace mkc {
namespace {

// BoxGroup has consecutive tasks of one grid that access the same box.
struct BoxGroup {
  Box box;
  uint32_t first = 0, count = 0;  // tasks
};

// GridAccess is one access of a grid, by box in task order.
struct GridAccess {
  GridId grid;
  bool writes = false, streams = false;
  std::vector<BoxGroup> groups;
  // by_key sorts the groups by their low end in key_dim, the dim with the most distinct low ends. key_extent
  // is the largest extent there.
  size_t key_dim = 0;
  int64_t key_extent = 0;
  std::vector<uint32_t> by_key;
};

void index_groups(GridAccess& access) {
  const size_t rank = access.groups.front().box.rank;
  size_t max = 0;
  for (size_t d = 0; d < rank; ++d) {
    std::vector<int64_t> lows;
    for (const BoxGroup& group : access.groups) lows.push_back(group.box.lo[d]);
    std::sort(lows.begin(), lows.end());
    const auto distinct = static_cast<size_t>(std::unique(lows.begin(), lows.end()) - lows.begin());
    if (distinct > max) max = distinct, access.key_dim = d;
  }
  if (rank == 0) return;
  const size_t k = access.key_dim;
  for (uint32_t i = 0; i < access.groups.size(); ++i) {
    access.by_key.push_back(i);
    access.key_extent = std::max(access.key_extent, access.groups[i].box.hi[k] - access.groups[i].box.lo[k]);
  }
  std::sort(access.by_key.begin(), access.by_key.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(access.groups[a].box.lo[k], a) < std::pair(access.groups[b].box.lo[k], b);
  });
}

// Calls visit(group, shared elements) for each group of `access` that overlaps the box.
template <class Visit>
void for_each_meeting(const GridAccess& access, const Box& box, Visit visit) {
  if (box.rank == 0) {  // a scalar
    for (const BoxGroup& group : access.groups) visit(group, 1);
    return;
  }
  const size_t k = access.key_dim;
  auto it = std::lower_bound(access.by_key.begin(), access.by_key.end(), box.lo[k] - access.key_extent + 1,
                             [&](uint32_t i, int64_t low) { return access.groups[i].box.lo[k] < low; });
  for (; it != access.by_key.end() && access.groups[*it].box.lo[k] < box.hi[k]; ++it)
    if (const int64_t shared = shared_elements(access.groups[*it].box, box); shared > 0)
      visit(access.groups[*it], shared);
}

// Returns the number of elements of the box that none of `others` holds.
int64_t elements_outside(const Box& box, std::span<const GridAccess* const> others) {
  if (others.empty()) return shared_elements(box, box);
  std::vector<Box> left = {box};
  for_each_meeting(*others[0], box, [&](const BoxGroup& group, int64_t) {
    std::vector<Box> rest;
    for (const Box& part : left)
      if (shared_elements(part, group.box) == 0)
        rest.push_back(part);
      else
        std::ranges::copy(parts_outside(part, group.box), std::back_inserter(rest));
    left = std::move(rest);
  });
  int64_t elements = 0;
  for (const Box& part : left) elements += elements_outside(part, others.subspan(1));
  return elements;
}

// Returns the number of elements of the box that the accesses hold, each element once. Requires that the
// groups of one access share no elements.
int64_t elements_held(const Box& box, std::span<const GridAccess* const> accesses) {
  int64_t held = 0;
  for (size_t i = 0; i < accesses.size(); ++i)
    for_each_meeting(*accesses[i], box, [&](const BoxGroup& group, int64_t) {
      held += elements_outside(intersection(group.box, box), accesses.subspan(i + 1));
    });
  return held;
}

GridAccess evaluate_access(const Step& step, GridId grid, const Access& access, bool writes) {
  GridAccess out;
  out.grid = grid;
  out.writes = writes;
  out.streams = access.stream;
  bool constant = true;
  for (const Range& r : access.region) constant = constant && !uses_coord(r.offset) && !uses_coord(r.size);
  const uint32_t begin = step.task_base[grid.index], end = step.task_base[grid.index + 1];
  std::vector<int64_t> coords;
  MKC_ASSERT(access.region.size() <= kMaxRank, "region of more dims than the prover's boxes");
  Box box;
  box.rank = access.region.size();
  for (uint32_t task = begin; task < end; ++task) {
    task_coords(step, task, coords);
    bool empty = false;
    for (size_t d = 0; d < box.rank; ++d) {
      box.lo[d] = evaluate(access.region[d].offset, step.symbols, coords);
      box.hi[d] = box.lo[d] + evaluate(access.region[d].size, step.symbols, coords);
      empty = empty || box.hi[d] <= box.lo[d];
    }
    if (empty) continue;
    const bool same = !out.groups.empty() && out.groups.back().box == box &&
                      out.groups.back().first + out.groups.back().count == task;
    if (!same) out.groups.push_back({box, task, 0});
    out.groups.back().count += constant ? end - begin : 1;
    if (constant) break;
  }
  if (!out.groups.empty()) index_groups(out);
  return out;
}

// Needed has the tasks that must have happened, as the last of them on each chain.
class Needed {
 public:
  explicit Needed(const HappensBefore& order) : order_(order) {}

  void clear() {
    for (uint32_t chain : chains_) last_[chain] = kNobody;
    chains_.clear();
  }
  void add(uint32_t first, uint32_t count) {
    for (uint32_t task = first; task < first + count; ++task) {
      const uint32_t chain = order_.chain[task];
      if (last_.size() <= chain) last_.resize(chain + 1, kNobody);
      if (last_[chain] == kNobody) chains_.push_back(chain), last_[chain] = task;
      if (order_.place[task] > order_.place[last_[chain]]) last_[chain] = task;
    }
  }
  // Returns the first of the tasks from `first` on that does not follow all needed tasks, and one needed task
  // that it misses. Returns kNobody twice where there is none.
  std::pair<uint32_t, uint32_t> find_unordered(uint32_t first, uint32_t count, uint64_t& orderings) const {
    uint32_t checked_chain = kNobody, checked_history = kNobody;
    for (uint32_t task = first; task < first + count; ++task) {
      // A task at the same or a later place of the same chain, with the same history, follows at least the
      // same tasks.
      const bool later = task > first && order_.chain[task] == checked_chain &&
                         order_.history[task] == checked_history &&
                         order_.place[task] >= order_.place[task - 1];
      if (later) continue;
      checked_chain = order_.chain[task], checked_history = order_.history[task];
      orderings += chains_.size();
      const std::vector<uint32_t>& history = order_.histories[checked_history];
      for (uint32_t chain : chains_) {
        const uint32_t reached = chain == checked_chain   ? order_.place[task] - 1
                                 : chain < history.size() ? history[chain]
                                                          : 0;
        if (reached < order_.place[last_[chain]]) return {task, last_[chain]};
      }
    }
    return {kNobody, kNobody};
  }

  static constexpr uint32_t kNobody = UINT32_MAX;

 private:
  const HappensBefore& order_;
  std::vector<uint32_t> last_;    // by chain
  std::vector<uint32_t> chains_;  // chains with a last task
};

struct Checker {
  const Step& step;
  const HappensBefore& order;
  uint64_t& orderings;
  Needed needed;

  const Schedule& schedule() const { return *step.schedule; }
  const Tensor& tensor(TensorId t) const { return schedule().program.tensors[t]; }

  // Checks one grid. Tasks of one grid run in no order, so none may write what another accesses.
  Status check_within_grid(TensorId t, const GridAccess& write, const GridAccess& other) {
    for (const BoxGroup& group : other.groups) {
      Status status;
      for_each_meeting(write, group.box, [&](const BoxGroup& w, int64_t) {
        const bool same_task = w.first == group.first && w.count == 1 && group.count == 1;
        if (same_task || !status.ok()) return;
        const uint32_t second = w.first != group.first ? w.first : w.first + 1;
        status = step_error(step, subject_of(other.grid),
                            fmt::format("{} {} what {} writes of %{}: tasks of one grid must not meet",
                                        task_name(step, group.first), other.writes ? "writes" : "reads",
                                        task_name(step, second), tensor(t).name));
      });
      if (!status.ok()) return status;
    }
    return {};
  }

  // Checks that no task writes what loaders bring without waiting.
  Status check_streamed(TensorId t, const GridAccess& write, const GridAccess& streamed) {
    for (const BoxGroup& group : streamed.groups) {
      Status status;
      for_each_meeting(write, group.box, [&](const BoxGroup& w, int64_t) {
        if (status.ok())
          status = step_error(step, subject_of(streamed.grid),
                              fmt::format("{} streams what {} writes of %{}", task_name(step, group.first),
                                          task_name(step, w.first), tensor(t).name));
      });
      if (!status.ok()) return status;
    }
    return {};
  }

  // Checks two accesses of which one writes; `later` follows `earlier` in the program.
  Status check_between_grids(TensorId t, const GridAccess& earlier, const GridAccess& later) {
    for (const BoxGroup& group : later.groups) {
      needed.clear();
      for_each_meeting(earlier, group.box, [&](const BoxGroup& e, int64_t) { needed.add(e.first, e.count); });
      const auto [task, missed] = needed.find_unordered(group.first, group.count, orderings);
      if (task != Needed::kNobody)
        return step_error(step, subject_of(later.grid),
                          fmt::format("{} may {} %{} before {} has {} it", task_name(step, task),
                                      later.writes ? "overwrite" : "read", tensor(t).name,
                                      task_name(step, missed), earlier.writes ? "written" : "read"));
    }
    return {};
  }

  Status check_tensor(TensorId t, const std::vector<GridAccess>& accesses) {
    const bool kept_between_steps = tensor(t).kind == TensorKind::kCache;
    std::vector<const GridAccess*> written;  // by earlier grids
    for (size_t b = 0; b < accesses.size(); ++b) {
      for (size_t a = 0; a < accesses.size(); ++a) {
        if (accesses[a].writes && accesses[b].streams && !accesses[a].groups.empty())
          if (Status s = check_streamed(t, accesses[a], accesses[b]); !s.ok()) return s;
        const bool same_grid = accesses[a].grid == accesses[b].grid;
        if (same_grid && accesses[a].writes && !accesses[a].groups.empty())
          if (Status s = check_within_grid(t, accesses[a], accesses[b]); !s.ok()) return s;
        const bool conflict = accesses[a].writes || accesses[b].writes;
        if (a >= b || same_grid || !conflict || accesses[a].groups.empty()) continue;
        if (Status s = check_between_grids(t, accesses[a], accesses[b]); !s.ok()) return s;
      }
      if (accesses[b].writes || kept_between_steps) continue;
      written.clear();
      for (size_t a = 0; a < b; ++a)
        if (accesses[a].writes && !accesses[a].groups.empty() && accesses[a].grid != accesses[b].grid)
          written.push_back(&accesses[a]);
      for (const BoxGroup& group : accesses[b].groups) {
        const int64_t wanted = shared_elements(group.box, group.box),
                      covered = elements_held(group.box, written);
        if (covered < wanted)
          return step_error(step, subject_of(accesses[b].grid),
                            fmt::format("{} reads {} elements of %{}, of which earlier grids write {}",
                                        task_name(step, group.first), wanted, tensor(t).name, covered));
      }
    }
    return tensor(t).kind == TensorKind::kOutput ? check_output(t, accesses) : Status();
  }

  // Checks that the step writes all of an output.
  Status check_output(TensorId t, const std::vector<GridAccess>& accesses) {
    Box whole;
    for (const Expr& dim : tensor(t).shape) whole.hi[whole.rank++] = evaluate(dim, step.symbols);
    std::vector<const GridAccess*> written;
    for (const GridAccess& access : accesses)
      if (access.writes && !access.groups.empty()) written.push_back(&access);
    const int64_t wanted = shared_elements(whole, whole), found = elements_held(whole, written);
    if (found == wanted) return {};
    return step_error(step, subject_of(t),
                      fmt::format("the host reads {} elements of %{}, of which the step writes {}", wanted,
                                  tensor(t).name, found));
  }

  // Checks that every access of `first` precedes every write of `second`, which lies in the same memory.
  Status check_shared_memory(TensorId first, TensorId second,
                             const std::vector<std::vector<GridId>>& accessors,
                             const std::vector<std::vector<GridId>>& writers) {
    needed.clear();
    for (GridId g : accessors[first.index])
      needed.add(step.task_base[g.index], step.task_base[g.index + 1] - step.task_base[g.index]);
    for (GridId g : writers[second.index]) {
      const uint32_t base = step.task_base[g.index];
      const auto [task, missed] = needed.find_unordered(base, step.task_base[g.index + 1] - base, orderings);
      if (task != Needed::kNobody)
        return step_error(
            step, subject_of(g),
            fmt::format("{} may write %{} over %{} before {} is done with it", task_name(step, task),
                        tensor(second).name, tensor(first).name, task_name(step, missed)));
    }
    return {};
  }

  Status check_sharing(const std::vector<std::vector<GridId>>& accessors,
                       const std::vector<std::vector<GridId>>& writers);
};

// Checks the tenants of the workspace in the order in which they move in. Only neighbours need a check.
// Suppose that each access of a precedes each write of b, and each access of b each write of c. Each access
// of a then precedes each write of c, if a task writes b.
Status Checker::check_sharing(const std::vector<std::vector<GridId>>& accessors,
                              const std::vector<std::vector<GridId>>& writers) {
  std::vector<TensorId> tenants;
  for (TensorId t : schedule().program.tensors.ids())
    if (tensor(t).kind == TensorKind::kActivation && !writers[t.index].empty()) tenants.push_back(t);
  std::sort(tenants.begin(), tenants.end(), [&](TensorId a, TensorId b) {
    return std::pair(accessors[a.index].front(), a) < std::pair(accessors[b.index].front(), b);
  });
  const auto overlap = [&](TensorId a, TensorId b) {
    const Slot &x = schedule().slots[a.index], &y = schedule().slots[b.index];
    return x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
  };
  std::vector<TensorId> successors;
  for (size_t i = 0; i < tenants.size(); ++i) {
    successors.clear();
    for (size_t j = i + 1; j < tenants.size(); ++j) {
      if (!overlap(tenants[i], tenants[j])) continue;
      const bool implied = std::any_of(successors.begin(), successors.end(),
                                       [&](TensorId s) { return overlap(s, tenants[j]); });
      if (implied) continue;
      const auto has_tasks = [&](GridId g) { return step.task_base[g.index] < step.task_base[g.index + 1]; };
      if (std::any_of(writers[tenants[j].index].begin(), writers[tenants[j].index].end(), has_tasks))
        successors.push_back(tenants[j]);
      if (Status s = check_shared_memory(tenants[i], tenants[j], accessors, writers); !s.ok()) return s;
    }
  }
  return {};
}

}  // namespace

Status check_accesses(const Step& step, const HappensBefore& order, uint64_t& orderings) {
  struct Use {
    GridId grid;
    const Access* access;
    bool writes;
  };
  const TaskProgram& program = step.schedule->program;
  std::vector<std::vector<Use>> uses(program.tensors.size());
  std::vector<std::vector<GridId>> accessors(program.tensors.size()), writers(program.tensors.size());
  const auto note = [](std::vector<GridId>& grids, GridId g) {
    if (grids.empty() || grids.back() != g) grids.push_back(g);
  };
  for (GridId g : program.grids.ids()) {
    for (const Access& a : program.grids[g].reads) {
      uses[a.tensor.index].push_back({g, &a, false});
      note(accessors[a.tensor.index], g);
    }
    for (const Access& a : program.grids[g].writes) {
      uses[a.tensor.index].push_back({g, &a, true});
      note(accessors[a.tensor.index], g);
      note(writers[a.tensor.index], g);
    }
  }

  Checker checker{step, order, orderings, Needed(order)};
  for (TensorId t : program.tensors.ids()) {
    const TensorKind kind = program.tensors[t].kind;
    const bool changes =
        kind == TensorKind::kActivation || kind == TensorKind::kOutput || kind == TensorKind::kCache;
    if (!changes) continue;
    std::vector<GridAccess> accesses;
    for (const Use& use : uses[t.index])
      accesses.push_back(evaluate_access(step, use.grid, *use.access, use.writes));
    if (Status s = checker.check_tensor(t, accesses); !s.ok()) return s;
  }
  return checker.check_sharing(accessors, writers);
}

}  // namespace mkc
