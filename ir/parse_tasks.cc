#include "ir/parser.h"
#include "ir/text.h"

namespace mkc {
namespace {

bool event_line(Parser& p, TaskProgram& program, Schedule* schedule) {
  if (!p.peek().is("event")) return false;
  p.mark({Part::kEvent, program.events.size()});
  p.take();
  Event event;
  event.name = p.declared(TokenKind::kEvent, "an event (@name)");
  event.dims = p.expr_list();
  p.expect("expect");
  event.expect = p.expr();
  if (schedule) {
    p.expect("base");
    schedule->event_base.push_back(p.natural32());
  }
  event.loc = p.loc();
  p.end_line();
  program.events.add(std::move(event));
  return true;
}

Access access(Parser& p) {
  Access a;
  a.role = p.name("a role");
  a.tensor = p.tensor();
  a.region = p.region();
  a.stream = p.accept("stream");
  return a;
}

// Parses one of the lines below a grid's first line. Returns false after the grid's last line.
bool grid_part(Parser& p, TaskGrid& grid, uint32_t index, Schedule* schedule) {
  const auto begins = [&](const char* keyword, Part part, size_t position) {
    if (!p.peek().is(keyword)) return false;
    p.mark({part, index, static_cast<uint32_t>(position)});
    p.take();
    return true;
  };
  if (begins("read", Part::kRead, grid.reads.size())) {
    grid.reads.push_back(access(p));
  } else if (begins("write", Part::kWrite, grid.writes.size())) {
    grid.writes.push_back(access(p));
  } else if (begins("wait", Part::kWait, grid.waits.size())) {
    const EventId event = p.event();
    const std::vector<Expr> cell = p.expr_list();
    grid.waits.push_back({event, cell, p.accept("lookup")});
  } else if (begins("notify", Part::kNotify, grid.notifies.size())) {
    const EventId event = p.event();
    grid.notifies.push_back({event, p.region()});
  } else if (schedule && begins("place", Part::kPlace, 0)) {
    Placement placement;
    placement.kind = static_cast<PlacementKind>(p.choice("a placement", names_of(kPlacementKinds)));
    if (claims_by_ticket(placement.kind)) {
      p.expect("tickets");
      placement.tickets = p.natural32();
    }
    if (placement.kind == PlacementKind::kRange && p.accept("rotation")) placement.rotation = p.natural32();
    placement.reason = p.quoted("the reason");
    schedule->placements.push_back(std::move(placement));
    p.end_line();
    return false;  // `place` is the last line of a grid
  } else {
    if (schedule) p.fail_expected("'read', 'write', 'wait', 'notify' or 'place'");
    return false;
  }
  p.end_line();
  return true;
}

void coords(Parser& p, TaskGrid& grid) {
  p.expect("[");
  if (p.accept("]")) return;
  do {
    Coord c;
    c.name = p.name("a coordinate's name");
    p.expect(":");
    c.extent = p.expr();
    p.coords.push_back(c.name);
    grid.coords.push_back(std::move(c));
  } while (p.accept(","));
  p.expect("]");
}

void op_ids(Parser& p, TaskGrid& grid) {
  if (!p.accept("ops")) return;
  p.expect("[");
  do grid.ops.push_back({p.natural32()});
  while (p.accept(","));
  p.expect("]");
}

bool grid_lines(Parser& p, TaskProgram& program, Schedule* schedule) {
  if (!p.peek().is("grid")) return false;
  const uint32_t index = program.grids.size();
  p.mark({Part::kGrid, index});
  p.take();
  TaskGrid grid;
  grid.name = p.declared(TokenKind::kTensor, "a grid (%name)");
  coords(p, grid);
  p.expect(":");
  grid.body = static_cast<BodyKind>(p.choice("a body", names_of(kBodyKinds)));
  grid.attrs = p.attrs();
  grid.layer = p.layer();
  op_ids(p, grid);
  grid.loc = p.loc();
  p.end_line();
  while (grid_part(p, grid, index, schedule)) continue;
  p.coords.clear();
  program.grids.add(std::move(grid));
  return true;
}

}  // namespace

bool program_lines(Parser& p, TaskProgram& program, Schedule* schedule) {
  return p.file_line() || p.symbol_line(program.symbols) ||
         p.tensor_line(program.tensors, schedule ? &schedule->slots : nullptr) ||
         p.rope_line(program.ropes) || event_line(p, program, schedule) || grid_lines(p, program, schedule);
}

TaskProgram parse_tasks(Parser& p, const std::string& name) {
  TaskProgram program;
  program.name = name;
  while (!p.at_end())
    if (!program_lines(p, program, nullptr)) p.unknown_line({"event", "grid"});
  return program;
}

}  // namespace mkc
