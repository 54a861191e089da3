// These edits change the segments of streams, and how grids are placed.
#include <algorithm>

#include "tests/attack/schedules/mutate.h"

namespace mkc::attack {
namespace {

std::vector<Segment>& any_stream(Edit& e) {
  return e.rng.pick(e.s.streams);
}

std::ptrdiff_t any_place(Edit& e, const std::vector<Segment>& stream) {
  return static_cast<std::ptrdiff_t>(e.rng.below(static_cast<int64_t>(stream.size())));
}

bool swap_neighbours(Edit& e) {
  auto& stream = any_stream(e);
  if (stream.size() < 2) return false;
  const std::ptrdiff_t i = e.rng.below(static_cast<int64_t>(stream.size()) - 1);
  std::iter_swap(stream.begin() + i, stream.begin() + i + 1);
  return true;
}

bool swap_segments(Edit& e) {
  auto& stream = any_stream(e);
  if (stream.size() < 2) return false;
  std::iter_swap(stream.begin() + any_place(e, stream), stream.begin() + any_place(e, stream));
  return true;
}

// All streams swap alike, so that grids keep one order where they have one.
bool swap_grids_everywhere(Edit& e) {
  const GridId a = e.any_grid(), b = e.any_grid();
  for (auto& stream : e.s.streams) {
    const auto at = [&](GridId g) {
      return std::find_if(stream.begin(), stream.end(), [&](const Segment& x) { return x.grid == g; });
    };
    if (at(a) != stream.end() && at(b) != stream.end()) std::iter_swap(at(a), at(b));
  }
  return a != b;
}

bool move_to_front(Edit& e) {
  auto& stream = any_stream(e);
  if (stream.size() < 2) return false;
  const std::ptrdiff_t i = any_place(e, stream);
  std::rotate(stream.begin(), stream.begin() + i, stream.begin() + i + 1);
  return i != 0;
}

bool move_to_worker(Edit& e) {
  auto &from = any_stream(e), &to = any_stream(e);
  if (&from == &to || from.empty()) return false;
  const std::ptrdiff_t i = any_place(e, from);
  const Segment segment = from[static_cast<size_t>(i)];
  from.erase(from.begin() + i);
  to.insert(to.begin() + e.rng.below(static_cast<int64_t>(to.size()) + 1), segment);
  return true;
}

// Moves a segment behind one of the same grid on another worker, which is as right as before.
bool move_beside(Edit& e) {
  auto &from = any_stream(e), &to = any_stream(e);
  if (&from == &to || from.empty()) return false;
  const std::ptrdiff_t i = any_place(e, from);
  const Segment segment = from[static_cast<size_t>(i)];
  const auto beside =
      std::find_if(to.begin(), to.end(), [&](const Segment& x) { return x.grid == segment.grid; });
  if (beside == to.end() || segment.count == 0) return false;
  to.insert(beside + 1, segment);
  from.erase(from.begin() + i);
  return true;
}

bool drop_segment(Edit& e) {
  auto& stream = any_stream(e);
  if (stream.empty()) return false;
  stream.erase(stream.begin() + any_place(e, stream));
  return true;
}

bool double_segment(Edit& e) {
  auto& stream = any_stream(e);
  if (stream.empty()) return false;
  const std::ptrdiff_t i = any_place(e, stream);
  const Segment segment = stream[static_cast<size_t>(i)];
  stream.insert(stream.begin() + i, segment);
  return true;
}

// Returns a segment of a table grid; null where there is none.
Segment* table_segment(Edit& e) {
  std::vector<Segment*> found;
  for (auto& stream : e.s.streams)
    for (Segment& segment : stream)
      if (segment.count != 0) found.push_back(&segment);
  return found.empty() ? nullptr : e.rng.pick(found);
}

bool shorten_segment(Edit& e) {
  Segment* segment = table_segment(e);
  if (!segment) return false;
  --segment->count;
  return true;
}

bool lengthen_segment(Edit& e) {
  Segment* segment = table_segment(e);
  if (!segment) return false;
  ++segment->count;
  return true;
}

bool shift_segment(Edit& e) {
  Segment* segment = table_segment(e);
  if (!segment) return false;
  segment->first += e.rng.one_in(2) || segment->first == 0 ? 1 : ~0u;
  return true;
}

bool halve_segment(Edit& e) {
  for (auto& stream : e.s.streams)
    for (size_t i = 0; i < stream.size(); ++i) {
      if (stream[i].count < 2 || !e.rng.one_in(3)) continue;
      Segment rest = stream[i];
      stream[i].count /= 2;
      rest.first += stream[i].count, rest.count -= stream[i].count;
      stream.insert(stream.begin() + static_cast<std::ptrdiff_t>(i + (e.rng.one_in(2) ? 0 : 1)), rest);
      return true;
    }
  return false;
}

bool rename_segment(Edit& e) {
  auto& stream = any_stream(e);
  if (stream.empty()) return false;
  e.rng.pick(stream).grid = e.any_grid();
  return true;
}

bool swap_streams(Edit& e) {
  auto &a = any_stream(e), &b = any_stream(e);
  std::swap(a, b);
  return &a != &b;
}

bool drop_worker(Edit& e) {
  if (e.s.workers < 2) return false;
  e.s.streams.erase(e.s.streams.begin() + e.rng.below(e.s.workers));
  --e.s.workers;
  return true;
}

bool add_worker(Edit& e) {
  e.s.streams.emplace_back();
  ++e.s.workers;
  return true;
}

bool add_worker_of_drawn_grids(Edit& e) {
  std::vector<Segment> stream = e.s.streams[0];
  std::erase_if(stream,
                [&](const Segment& x) { return e.s.placements[x.grid.index].kind == PlacementKind::kTable; });
  e.s.streams.push_back(std::move(stream));
  ++e.s.workers;
  return true;
}

// Gives all workers the grid, at the place of the first segment of it.
void place_everywhere(Edit& e, GridId g) {
  for (auto& stream : e.s.streams) {
    const auto is_it = [&](const Segment& x) { return x.grid == g; };
    auto at = std::find_if(stream.begin(), stream.end(), is_it);
    if (at == stream.end()) {  // the grid goes behind those before it in the program
      at = std::find_if(stream.begin(), stream.end(), [&](const Segment& x) { return x.grid > g; });
      at = stream.insert(at, Segment{g, 0, 0});
    }
    *at = {g, 0, 0};
    stream.erase(std::remove_if(at + 1, stream.end(), is_it), stream.end());
  }
}

GridId placed_as(Edit& e, PlacementKind kind) {
  return e.placed_where([&](const Placement& p) { return p.kind == kind; });
}

bool table_to_range(Edit& e) {
  const GridId g = placed_as(e, PlacementKind::kTable);
  if (!g.valid()) return false;
  e.s.placements[g.index].kind = PlacementKind::kRange;
  if (!e.rng.one_in(4)) place_everywhere(e, g);
  return true;
}

bool range_to_table(Edit& e) {
  const GridId g = placed_as(e, PlacementKind::kRange);
  if (!g.valid()) return false;
  e.s.placements[g.index].kind = PlacementKind::kTable;
  if (e.rng.one_in(2)) return true;
  for (auto& stream : e.s.streams)  // each segment gets some number of tasks
    for (Segment& segment : stream)
      if (segment.grid == g) segment.count = static_cast<uint32_t>(e.rng.between(1, 8));
  return true;
}

bool drawn_to_table(Edit& e) {
  const GridId g = e.placed_where([](const Placement& p) { return claims_by_ticket(p.kind); });
  if (!g.valid()) return false;
  e.s.placements[g.index].kind = PlacementKind::kTable;
  return true;
}

bool any_to_inline(Edit& e) {
  const GridId g = e.any_grid();
  if (e.s.placements[g.index].kind == PlacementKind::kInline) return false;
  e.s.placements[g.index] = {PlacementKind::kInline, "", 0, 0};
  if (!e.rng.one_in(4))
    for (auto& stream : e.s.streams) std::erase_if(stream, [&](const Segment& x) { return x.grid == g; });
  return true;
}

bool inline_to_range(Edit& e) {
  const GridId g = placed_as(e, PlacementKind::kInline);
  if (!g.valid()) return false;
  e.s.placements[g.index].kind = PlacementKind::kRange;
  if (!e.rng.one_in(4)) place_everywhere(e, g);
  return true;
}

bool to_drawn(Edit& e, PlacementKind kind) {
  const GridId g = e.any_grid();
  if (e.s.placements[g.index].kind == kind) return false;
  e.s.placements[g.index] = {kind, "", e.s.event_cells++, 0};
  if (e.rng.one_in(4)) e.s.placements[g.index].tickets = static_cast<uint32_t>(e.rng.below(e.s.event_cells));
  place_everywhere(e, g);
  return true;
}
bool any_to_queue(Edit& e) {
  return to_drawn(e, PlacementKind::kQueue);
}
bool any_to_ready(Edit& e) {  // the grid waits once, as it must; its event gets a log now and then
  const GridId g = e.any_grid();
  const TaskGrid& grid = e.grid(g);
  if (grid.waits.size() != 1 || e.s.placements[g.index].kind == PlacementKind::kReady) return false;
  if (e.rng.one_in(2)) {
    const uint32_t cells = max_cells(e.s.program, grid.waits[0].event);
    e.s.event_base[grid.waits[0].event.index] = e.s.event_cells;
    e.s.event_cells += 2 * cells + 1;
  }
  e.s.placements[g.index] = {PlacementKind::kReady, "", e.s.event_cells++, 0};
  place_everywhere(e, g);
  return true;
}

bool queue_to_ready(Edit& e) {
  const GridId g = placed_as(e, PlacementKind::kQueue);
  if (!g.valid()) return false;
  e.s.placements[g.index].kind = PlacementKind::kReady;
  return true;
}
bool ready_to_queue(Edit& e) {
  const GridId g = placed_as(e, PlacementKind::kReady);
  if (!g.valid()) return false;
  e.s.placements[g.index].kind = PlacementKind::kQueue;
  return true;
}

bool change_turn(Edit& e) {
  const GridId g = placed_as(e, PlacementKind::kRange);
  if (!g.valid()) return false;
  e.s.placements[g.index].rotation = static_cast<uint32_t>(e.rng.below(int64_t{e.s.workers} + 2));
  return true;
}

bool share_tickets(Edit& e) {
  const auto claimed = [](const Placement& p) { return claims_by_ticket(p.kind); };
  const GridId a = e.placed_where(claimed), b = e.placed_where(claimed);
  if (!a.valid() || a == b) return false;
  e.s.placements[a.index].tickets = e.s.placements[b.index].tickets;
  return true;
}

bool put_tickets_elsewhere(Edit& e) {
  const GridId g = e.placed_where([](const Placement& p) { return claims_by_ticket(p.kind); });
  if (!g.valid()) return false;
  e.s.placements[g.index].tickets = static_cast<uint32_t>(e.rng.below(int64_t{e.s.event_cells} + 2));
  return true;
}

constexpr MutantClass kStreamClasses[] = {
    {"segment_swap_neighbours", swap_neighbours},
    {"segment_swap", swap_segments},
    {"segment_swap_everywhere", swap_grids_everywhere},
    {"segment_to_front", move_to_front},
    {"segment_to_worker", move_to_worker},
    {"segment_beside", move_beside},
    {"segment_drop", drop_segment},
    {"segment_double", double_segment},
    {"segment_shorten", shorten_segment},
    {"segment_lengthen", lengthen_segment},
    {"segment_shift", shift_segment},
    {"segment_halve", halve_segment},
    {"segment_rename", rename_segment},
    {"streams_swap", swap_streams},
    {"worker_drop", drop_worker},
    {"worker_add", add_worker},
    {"worker_add_of_drawn_grids", add_worker_of_drawn_grids},
    {"table_to_range", table_to_range},
    {"range_to_table", range_to_table},
    {"drawn_to_table", drawn_to_table},
    {"any_to_inline", any_to_inline},
    {"inline_to_range", inline_to_range},
    {"any_to_queue", any_to_queue},
    {"any_to_ready", any_to_ready},
    {"queue_to_ready", queue_to_ready},
    {"ready_to_queue", ready_to_queue},
    {"turn", change_turn},
    {"tickets_share", share_tickets},
    {"tickets_elsewhere", put_tickets_elsewhere},
};

}  // namespace

std::span<const MutantClass> stream_classes() {
  return kStreamClasses;
}

}  // namespace mkc::attack
