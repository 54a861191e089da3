#include "codegen/kinds.h"

#include <fmt/format.h>

#include <map>

#include "codegen/device/bodies.h"
#include "codegen/operands.h"
#include "ir/waits.h"

namespace mkc {
namespace {

// Signature makes texts that are equal for grids of one kind. Expressions name symbols and coordinates by
// their positions, `$0` and `#0`.
class Signature {
 public:
  explicit Signature(const Schedule& s) : schedule_(s), padded_chunks_(types_with_padded_chunks(s.program)) {
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

  // Returns a text of everything that the code of a grid that multiplies depends on. Numbers of the record
  // and parts chosen by kind at run time are left out.
  std::string code_of(GridId id) const {
    const TaskGrid& grid = schedule_.program.grids[id];
    const Tensor& x = schedule_.program.tensors[multiplied_rows(grid)->tensor];
    const Tensor& weight = operand_tensor(schedule_.program, grid, "weight");
    const std::string of_body =
        grid.body == BodyKind::kExpert ? code_of_experts(grid) : code_of_product(grid, x);
    return fmt::format("{} {};{};norm {};padding {};notifies {};placed {}", dtype_name(weight.dtype),
                       dtype_name(x.dtype), of_body, find_operand(grid, "norm") != nullptr,
                       static_cast<int>(code_padding(schedule_.program, grid, padded_chunks_)),
                       !grid.notifies.empty(), static_cast<int>(schedule_.placements[id.index].kind));
  }
  // Returns a text of everything that the kernel of a product or split_k_partial depends on in kernels mode.
  std::string kernel_of(GridId id) const {
    const TaskGrid& grid = schedule_.program.grids[id];
    return fmt::format("{};{};rows {};parts {}", body_name(grid.body), code_of(id),
                       expr(rows_made(schedule_.program, grid)), split_k(grid));
  }

 private:
  std::string code_of_product(const TaskGrid& grid, const Tensor& x) const {
    std::string waits;
    for (const Wait& wait : grid.waits) waits += waits_once(grid, wait) ? " once" : " each";
    return fmt::format("product {};wide {};fp8 {};codes {};waits{}", expr(x.shape[0]),
                       wgmma_from(schedule_.program, grid), fp8_from(schedule_.program, grid),
                       reads_codes(grid), waits);
  }
  // Both products of an expert look up the same numbers. Their own waits are chosen by kind.
  std::string code_of_experts(const TaskGrid& grid) const {
    std::string text = "experts";
    for (size_t i = 1; i < grid.coords.size(); ++i) text += ";x " + expr(grid.coords[i].extent);
    for (size_t i = 0; i < grid.waits.size(); ++i)
      if (grid.waits[i].lookup) text += fmt::format(";look up {} {}", i, event(grid.waits[i].event));
    const Access* bias = find_operand(grid, "bias");
    return fmt::format("{};rows {};top_k {};biases {}", text,
                       expr(operand_tensor(schedule_.program, grid, "out", true).shape[0]),
                       int_attr(grid.attrs, "top_k", 1),
                       bias ? expr(schedule_.program.tensors[bias->tensor].shape[0]) : "none");
  }
  std::string expr(const Expr& e) const { return to_string(e, symbols_, coords_); }
  // Returns the text of an operand. Only an input's text has its id, because each input has its own address
  // field in MkStep. Other tensors differ only in their record entries.
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
  const std::set<std::pair<DType, DType>> padded_chunks_;
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

namespace {

// Tells whether a kind may share its code. Kinds placed kReady may not, because their code reads the log of
// one event.
bool shares_code(const Schedule& schedule, GridId id) {
  return multiplies(schedule.program.grids[id]) &&
         schedule.placements[id.index].kind != PlacementKind::kReady;
}

std::vector<std::vector<GridId>> find_codes(const Schedule& schedule, const std::vector<GridId>& kinds) {
  const Signature signature(schedule);
  std::vector<std::vector<GridId>> shared_code_groups;
  std::map<std::string, size_t> known;
  for (const GridId kind : kinds) {
    size_t code = shared_code_groups.size();
    if (shares_code(schedule, kind)) code = known.emplace(signature.code_of(kind), code).first->second;
    if (code == shared_code_groups.size()) shared_code_groups.emplace_back();
    shared_code_groups[code].push_back(kind);
  }
  return shared_code_groups;
}

}  // namespace

Kinds find_kinds(const Schedule& schedule, Mode mode) {
  Kinds kinds;
  const Signature signature(schedule);
  std::map<std::string, uint32_t> known;
  for (GridId id : schedule.program.grids.ids()) {
    const GridId inlined = inline_grid_of(schedule, id);
    const bool by_code = mode == Mode::kKernels && !inlined.valid() && shares_code(schedule, id) &&
                         multiplies_in_blocks(schedule.program.grids[id]);
    std::string text = by_code ? signature.kernel_of(id) : signature.of(id);
    if (inlined.valid()) text += ";runs " + signature.of(inlined);
    const auto [at, is_new] = known.emplace(std::move(text), static_cast<uint32_t>(kinds.first.size()));
    if (is_new) kinds.first.push_back(id);
    kinds.of_grid.push_back(at->second);
  }
  kinds.shared_code_groups = find_codes(schedule, kinds.first);
  return kinds;
}

}  // namespace mkc
