#include "scheduler/proof/counts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "scheduler/proof/equality.h"

namespace mkc::proof {
namespace {

constexpr int64_t kMaxCells = 1 << 20;

std::string event_name_of(const Context& c, EventId e) {
  return "@" + c.p.events[e].name;
}

bool is_empty(const Interval& i) {
  return i.first >= i.second;
}

// Share has the notifications that a source gives to a cell. Their number is a product: a number for each
// walked dim, times the extents of the coordinates that no dim decides.
struct Share {
  const Source* source = nullptr;
  // The number of tasks by cell, for each dim; empty where the dim is not walked.
  std::vector<std::vector<int64_t>> tables;
  Expr rest = 1;  // over the coordinates of the cell
};

// Returns, for each cell of a constant dim, the number of tasks whose interval holds it.
std::vector<int64_t> tasks_by_cell(const Along& along, int64_t cells) {
  std::vector<int64_t> change(static_cast<size_t>(cells) + 1, 0);
  for (const Interval& i : along.intervals) {
    if (is_empty(i)) continue;
    ++change[static_cast<size_t>(i.first)];
    --change[static_cast<size_t>(i.second)];
  }
  for (size_t cell = 1; cell < change.size(); ++cell) change[cell] += change[cell - 1];
  change.pop_back();
  return change;
}

// Returns the number of tasks that differ only in coordinates which no dim of the event decides.
std::optional<Expr> undecided_tasks(const TaskGrid& grid, const Source& source) {
  Expr rest = 1;
  for (uint32_t coord_index = 0; coord_index < grid.coords.size(); ++coord_index) {
    const auto decides = [&](uint32_t coord) {
      return std::find_if(source.dims.begin(), source.dims.end(),
                          [&](const Along& dim) { return dim.coord == coord; });
    };
    if (decides(coord_index) != source.dims.end()) continue;
    Expr extent = grid.coords[coord_index].extent;
    if (uses_coord(extent)) {
      // The cell must determine the coordinate before it; the coordinate's value is then the cell's.
      const auto before = coord_index == 0 ? source.dims.end() : decides(coord_index - 1);
      if (before == source.dims.end() || before->kind != Along::Kind::kEach) return std::nullopt;
      std::vector<Expr> cell(grid.coords.size());
      cell[coord_index - 1] = coord(static_cast<uint32_t>(before - source.dims.begin()));
      extent = substitute(extent, cell);
    }
    rest = rest * extent;
  }
  return rest;
}

// Counts one dim's part of a share. Returns false where its notifications cannot be counted.
bool count_along(Context& c, const TaskGrid& grid, const Along& along, const Expr& dim,
                 std::vector<int64_t>& table) {
  switch (along.kind) {
    case Along::Kind::kWhole:
      return true;
    case Along::Kind::kEach:
      return c.forms.equal(grid.coords[along.coord].extent, dim);
    case Along::Kind::kTable:
      if (dim.constant() > kMaxCells) return false;
      table = tasks_by_cell(along, dim.constant());
      return true;
    case Along::Kind::kRagged:
    case Along::Kind::kSpans:
    case Along::Kind::kOther:
      return false;
  }
  MKC_BUG("dim of unknown kind");
}

// Sets what a source is known to do to every cell, from its share.
void describe(const Context& c, const Share& share, Source& source) {
  source.every_cell = source.some_cell = source.each_heard = true;
  for (size_t d = 0; d < source.dims.size(); ++d) {
    const Along& along = source.dims[d];
    if (along.kind == Along::Kind::kEach) source.every_cell = false;
    if (along.kind != Along::Kind::kTable) continue;
    const auto cells = static_cast<int64_t>(share.tables[d].size());
    for (const Interval& i : along.intervals) {
      source.some_cell &= !is_empty(i);
      source.every_cell &= i.first <= 0 && i.second >= cells;
    }
    for (int64_t tasks : share.tables[d]) source.each_heard &= tasks > 0;
  }
  const TaskGrid& grid = c.p.grids[source.grid];
  for (const Coord& coord : grid.coords)
    source.each_heard &= lower_bound(coord.extent, c.tasks[source.grid.index]) >= 1;
}

Result<Share> share_of(Context& c, EventId e, Source& source, const Notify& notify) {
  const TaskGrid& grid = c.p.grids[source.grid];
  const Event& event = c.p.events[e];
  Share share;
  share.source = &source;
  const auto give_up = [&](const char* why) {
    return c.unproved(subject_of(source.grid),
                      fmt::format("%{} notifies {} in a way that cannot be counted: {}", grid.name,
                                  event_name_of(c, e), why));
  };
  for (size_t d = 0; d < event.dims.size(); ++d) {
    source.dims.push_back(along(c, source.grid, notify.cells[d], event.dims[d]));
    const Along& added = source.dims.back();
    for (size_t other = 0; other < d; ++other)
      if (added.moves() && source.dims[other].coord == added.coord)
        return give_up("one coordinate decides two dims of its cells");
    if (!count_along(c, grid, added, event.dims[d], share.tables.emplace_back()))
      return give_up("its cells move in no known way");
  }
  std::optional<Expr> rest = undecided_tasks(grid, source);
  if (!rest) return give_up("the number of its tasks depends on a coordinate that its cells do not tell");
  share.rest = *std::move(rest);
  for (const Coord& coord : grid.coords)
    if (lower_bound(coord.extent, c.tasks[source.grid.index]) < 0)
      return give_up("an extent may be negative");
  describe(c, share, source);
  return share;
}

// Walk is the walk of one event over the cells of its walked dims.
struct Walk {
  Context& c;
  EventId id;
  const Event& event;
  const std::vector<Share>& shares;
  std::vector<int64_t> cell;  // values of the walked dims
  std::vector<std::string> names{};

  std::vector<Expr> coords() const {
    std::vector<Expr> out;
    for (uint32_t d = 0; d < event.dims.size(); ++d) out.push_back(walked(d) ? Expr(cell[d]) : coord(d));
    return out;
  }
  bool walked(size_t d) const {
    return std::any_of(shares.begin(), shares.end(), [&](const Share& s) { return !s.tables[d].empty(); });
  }
  Expr notifications(const std::vector<Expr>& at) const {
    Expr total = 0;
    for (const Share& share : shares) {
      Expr tasks = substitute(share.rest, at);
      for (size_t d = 0; d < cell.size(); ++d)
        if (!share.tables[d].empty()) tasks = share.tables[d][static_cast<size_t>(cell[d])] * tasks;
      total = total + tasks;
    }
    return total;
  }
  std::string cell_text() const {
    std::vector<std::string> at;
    for (uint32_t d = 0; d < cell.size(); ++d) at.push_back(walked(d) ? std::to_string(cell[d]) : names[d]);
    return fmt::format("{}[{}]", event_name_of(c, id), fmt::join(at, ", "));
  }
  Status check_cell();
  Status check();
};

Status Walk::check_cell() {
  const std::vector<Expr> at = coords();
  const Expr expect = substitute(event.expect, at), given = notifications(at);
  const Comparison found = compare(c, expect, given, c.cells[id.index], names);
  switch (found.agreement) {
    case Agreement::kAlways:
      ++c.report.symbolic;
      return {};
    case Agreement::kWalked:
      ++c.report.enumerated;
      return {};
    case Agreement::kDiffers:
      return c.wrong(subject_of(id),
                     fmt::format("{} expects {} notifications, {} tasks notify it{}", cell_text(), found.a,
                                 found.b, found.where.empty() ? "" : " (at " + found.where + ")"));
    case Agreement::kUnknown:
      return c.unproved(subject_of(id), fmt::format("{} expects {} notifications, it gets {}", cell_text(),
                                                    c.cell_text(expect), c.cell_text(given)));
  }
  MKC_BUG("comparison of unknown outcome");
}

Status Walk::check() {
  int64_t cells = 1;
  std::vector<int64_t> sizes;
  for (size_t d = 0; d < event.dims.size(); ++d) {
    sizes.push_back(walked(d) ? event.dims[d].constant() : 1);
    if (sizes.back() > kMaxCells / cells)
      return c.unproved(subject_of(id), event_name_of(c, id) + " has too many cells to walk");
    cells *= sizes.back();
  }
  for (int64_t number = 0; number < cells; ++number) {
    int64_t rest = number;
    for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) cell[d] = rest % sizes[d];
    if (Status status = check_cell(); !status.ok()) return status;
  }
  return {};
}

}  // namespace

Sources notifiers_of(const TaskProgram& program) {
  Sources sources(program.events.size());
  for (GridId g : program.grids.ids())
    for (const Notify& notify : program.grids[g].notifies)
      sources[notify.event.index].emplace_back().grid = g;
  return sources;
}

Result<Sources> check_counts(Context& c) {
  struct Notification {
    GridId grid;
    const Notify* notify;
  };
  std::vector<std::vector<Notification>> notifiers(c.p.events.size());
  for (GridId g : c.p.grids.ids())
    for (const Notify& notify : c.p.grids[g].notifies) notifiers[notify.event.index].push_back({g, &notify});
  Sources sources(c.p.events.size());
  for (EventId e : c.p.events.ids()) {
    std::vector<Source>& found = sources[e.index];
    found.resize(notifiers[e.index].size());
    std::vector<Share> shares;
    for (size_t i = 0; i < found.size(); ++i) {
      found[i].grid = notifiers[e.index][i].grid;
      Result<Share> share = share_of(c, e, found[i], *notifiers[e.index][i].notify);
      if (!share.ok()) return share.error();
      shares.push_back(std::move(share.value()));
    }
    const Event& event = c.p.events[e];
    Walk walk{c, e, event, shares, std::vector<int64_t>(event.dims.size(), 0)};
    for (size_t d = 0; d < event.dims.size(); ++d) walk.names.push_back(fmt::format("${}", d));
    if (Status status = walk.check(); !status.ok()) return status.error();
  }
  return sources;
}

}  // namespace mkc::proof
