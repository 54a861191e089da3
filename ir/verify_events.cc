#include <fmt/format.h>

#include <algorithm>

#include "ir/verifier.h"

namespace mkc {
namespace {

constexpr int64_t kMaxCells = 1 << 24;

Site event_site(const TaskProgram& program, EventId id) {
  return {{Part::kEvent, id.index}, "event @" + spell_name(program.events[id].name), &program.events[id].loc};
}

// Returns the domain of an event's cells. Requires checked dims.
Domain cells_of(const Verifier& v, const Event& event) {
  Domain cells = v.at_symbols;
  for (const Expr& dim : event.dims) add_coord(cells, dim);
  return cells;
}

// Checks V23.
void check_event(Verifier& v, const TaskProgram& program, EventId id) {
  const Event& event = program.events[id];
  const Site site = event_site(program, id);
  int64_t cells = 1;
  for (const Expr& dim : event.dims) {
    if (const int64_t min = lower_bound(dim, v.at_symbols); min < 1)
      v.report(23, site, fmt::format("dim {} may be {}, expected at least 1", v.text.expr(dim), min));
    // Counters are reserved by these bounds (max_cells), which may be looser than upper_bound().
    const int64_t max = std::max<int64_t>(1, bounds(dim, v.at_symbols.symbols).hi);
    if (max > kMaxCells / cells) return v.report(23, site, fmt::format("more than {} cells", kMaxCells));
    cells *= max;
  }
  if (const int64_t min = lower_bound(event.expect, cells_of(v, event)); min < 0)
    v.report(23, site, fmt::format("it may expect {}", min));
}

// Checks V24 and V25.
void check_signals(Verifier& v, const TaskProgram& program, GridId id, const Domain& domain) {
  const TaskGrid& grid = program.grids[id];
  const auto check = [&](int rule, const Region& box, EventId e, Part part, uint32_t position) {
    v.check_box(rule, box, program.events[e].dims, domain, "@" + spell_name(program.events[e].name),
                part_site(program, id, part, position));
  };
  for (uint32_t i = 0; i < grid.waits.size(); ++i) {
    Region box;
    for (const Expr& cell : grid.waits[i].cell) box.push_back({cell, 1});
    check(24, box, grid.waits[i].event, Part::kWait, i);
    if (!grid.waits[i].lookup) continue;
    const bool tables = std::any_of(grid.reads.begin(), grid.reads.end(),
                                    [&](const Access& a) { return looks_up(grid.body, a.role); });
    if (!tables || std::any_of(box.begin(), box.end(), [](const Range& r) { return uses_coord(r.offset); }))
      v.report(24, part_site(program, id, Part::kWait, i),
               "a lookup is one for all tasks of a grid with tables to look things up in");
  }
  for (uint32_t i = 0; i < grid.notifies.size(); ++i)
    check(25, grid.notifies[i].cells, grid.notifies[i].event, Part::kNotify, i);
}

// Checks V26.
void check_users(Verifier& v, const TaskProgram& program) {
  std::vector<bool> awaited(program.events.size(), false), notified(program.events.size(), false);
  for (const TaskGrid& grid : program.grids) {
    for (const Wait& wait : grid.waits) awaited[wait.event.index] = true;
    for (const Notify& notify : grid.notifies) notified[notify.event.index] = true;
  }
  for (EventId e : program.events.ids()) {
    if (!awaited[e.index]) v.report(26, event_site(program, e), "no grid waits for it");
    if (!notified[e.index]) v.report(26, event_site(program, e), "no grid notifies it");
  }
}

}  // namespace

void check_event_exprs(Verifier& v, const TaskProgram& program) {
  for (EventId e : program.events.ids()) {
    const Site site = event_site(program, e);
    const Event& event = program.events[e];
    bool dims = true;
    for (const Expr& dim : event.dims) dims &= v.check_expr(dim, v.at_symbols, site, "dim");
    if (dims) v.check_expr(event.expect, cells_of(v, event), site, "expect");
  }
}

void check_events(Verifier& v, const TaskProgram& program, const std::vector<Domain>& domains) {
  for (EventId e : program.events.ids()) check_event(v, program, e);
  for (GridId g : program.grids.ids()) check_signals(v, program, g, domains[g.index]);
  check_users(v, program);
}

}  // namespace mkc
