#include "codegen/kinds.h"

#include <fmt/format.h>

#include <map>

namespace mkc {
namespace {

// The parts of a signature are expressions with positions for names; `$0`, `#0` cannot be confused.
class Signature {
 public:
  explicit Signature(const Schedule& s) : schedule_(s) {
    for (uint32_t i = 0; i < s.program.symbols.size(); ++i) symbols_.push_back(fmt::format("${}", i));
    for (uint32_t i = 0; i < 8; ++i) coords_.push_back(fmt::format("#{}", i));
  }

  std::string of(GridId id) const {
    const TaskGrid& grid = schedule_.program.grids[id];
    std::string text =
        fmt::format("{};{}", body_name(grid.body), static_cast<int>(schedule_.placements[id.index].kind));
    for (const Attr& a : grid.attrs) text += fmt::format(";{}={}/{:a}", a.name, a.i, a.f);
    for (const Coord& c : grid.coords) text += ";x " + expr(c.extent);
    for (const Access& access : grid.reads) text += ";r " + operand(access);
    for (const Access& access : grid.writes) text += ";w " + operand(access);
    for (const Wait& wait : grid.waits) {
      text += (wait.lookup ? ";look up " : ";wait ") + event(wait.event);
      for (const Expr& e : wait.cell) text += " " + expr(e);
    }
    for (const Notify& notify : grid.notifies) {
      text += ";notify " + event(notify.event);
      for (const Range& r : notify.cells) text += fmt::format(" {}:{}", expr(r.offset), expr(r.size));
    }
    return text;
  }

 private:
  std::string expr(const Expr& e) const { return to_string(e, symbols_, coords_); }
  // Inputs are bound one by one for each step, so which it is matters; other tensors only lie elsewhere.
  std::string operand(const Access& access) const {
    const Tensor& t = schedule_.program.tensors[access.tensor];
    std::string text = fmt::format("{} {} {} {}", access.role, static_cast<int>(t.kind), dtype_name(t.dtype),
                                   t.packing.group);
    if (t.kind == TensorKind::kInput) text += fmt::format(" %{}", access.tensor.index);
    for (const Expr& e : t.shape) text += " " + expr(e);
    return text;
  }
  std::string event(EventId id) const {
    const Event& e = schedule_.program.events[id];
    std::string text = expr(e.expect);
    for (const Expr& dim : e.dims) text += "," + expr(dim);
    return keeps_log(schedule_, id) ? text + " logged" : text;
  }

  const Schedule& schedule_;
  std::vector<std::string> symbols_, coords_;
};

}  // namespace

GridId inline_grid_of(const Schedule& schedule, GridId grid) {
  for (const Notify& notify : schedule.program.grids[grid].notifies)
    for (GridId other : schedule.program.grids.ids()) {
      if (schedule.placements[other.index].kind != PlacementKind::kInline) continue;
      for (const Wait& wait : schedule.program.grids[other].waits)
        if (wait.event == notify.event) return other;
    }
  return {};
}

Kinds find_kinds(const Schedule& schedule) {
  Kinds kinds;
  const Signature signature(schedule);
  std::map<std::string, uint32_t> known;
  for (GridId id : schedule.program.grids.ids()) {
    std::string text = signature.of(id);
    if (const GridId inlined = inline_grid_of(schedule, id); inlined.valid())
      text += ";runs " + signature.of(inlined);
    const auto [at, is_new] = known.emplace(std::move(text), static_cast<uint32_t>(kinds.first.size()));
    if (is_new) kinds.first.push_back(id);
    kinds.of_grid.push_back(at->second);
  }
  return kinds;
}

}  // namespace mkc
