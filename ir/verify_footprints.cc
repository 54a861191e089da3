// Checks of V33 and V34: the regions of accesses, and the bounds of symbols.
#include <fmt/format.h>

#include <algorithm>

#include "ir/footprint.h"
#include "ir/form.h"
#include "ir/values.h"
#include "ir/verifier.h"

namespace mkc {
namespace {

// Tells whether two sizes are equal for a range that begins at the expected offset of a dim. A size that
// never exceeds the dim may be written with or without the cut to the dim.
bool same_size(Forms& forms, const Range& found, const Range& expected, const Expr& dim) {
  return forms.equal(found.size, expected.size) ||
         forms.equal(found.size, min(expected.size, dim - expected.offset));
}

struct Footprints {
  Verifier& v;
  const TaskProgram& program;
  Forms forms{};

  std::string why_none(const TaskGrid& grid, BodyOperand operand) const {
    operand.stream = !operand.stream;
    if (!footprint(program, grid, operand))
      return fmt::format("the program lacks the symbols that {} goes by", body_name(grid.body));
    return operand.stream ? "it does not stream, its body does" : "it streams, its body does not";
  }

  void check_access(GridId id, Part part, uint32_t number, const Access& access) {
    const TaskGrid& grid = program.grids[id];
    const Site site = part_site(program, id, part, number);
    const BodyOperand operand{access.role, access.tensor, part == Part::kWrite, access.stream};
    const std::optional<Region> expected = footprint(program, grid, operand);
    if (!expected) return v.report(33, site, why_none(grid, operand));
    const std::vector<Expr>& dims = program.tensors[access.tensor].shape;
    for (size_t d = 0; d < expected->size(); ++d) {
      const Range &found = access.region[d], &wanted = (*expected)[d];
      if (forms.equal(found.offset, wanted.offset) && same_size(forms, found, wanted, dims[d])) continue;
      v.report(33, site,
               fmt::format("dim {} is {}:+{}, its body touches {}:+{}", d, v.text.expr(found.offset),
                           v.text.expr(found.size), v.text.expr(wanted.offset), v.text.expr(wanted.size)));
    }
  }

  // Attention reads its caches twice: positions from before the step, and positions that the step appends.
  void check_complete(GridId id, const Site& site) {
    const TaskGrid& grid = program.grids[id];
    if (grid.body != BodyKind::kAttend) return;
    for (const char* role : {"k_cache", "v_cache"})
      for (const bool stream : {false, true})
        if (std::none_of(grid.reads.begin(), grid.reads.end(),
                         [&](const Access& a) { return a.role == role && a.stream == stream; }))
          v.report(33, site,
                   fmt::format("it reads no {} that {}", role, stream ? "streams" : "the step appends"));
  }

  // Checks V34 of active_experts. At least as many experts are active as one token chooses, and at most all.
  void check_route(const TaskGrid& grid, const Site& site) {
    const Expr& experts = program.tensors[find_operand(grid, "logits")->tensor].shape[1];
    const Routing found = routing_of(program.symbols);
    const int64_t choices = int_attr(grid.attrs, "top_k", 0);
    if (found.choices != choices || !experts.is_const(found.experts))
      v.report(34, site,
               fmt::format("active_experts is {} to {}, expected {} choices to {} experts", found.choices,
                           found.experts, choices, v.text.expr(experts)));
  }

  void check(GridId id) {
    const TaskGrid& grid = program.grids[id];
    const Site site{{Part::kGrid, id.index}, "grid %" + spell_name(grid.name), &grid.loc};
    v.text.set_coords(grid);
    for (uint32_t i = 0; i < grid.reads.size(); ++i) check_access(id, Part::kRead, i, grid.reads[i]);
    for (uint32_t i = 0; i < grid.writes.size(); ++i) check_access(id, Part::kWrite, i, grid.writes[i]);
    check_complete(id, site);
    if (grid.body == BodyKind::kRoute) check_route(grid, site);
    const std::vector<std::optional<Expr>> extents = coordinate_extents(program, grid);
    for (size_t i = 0; i < extents.size(); ++i)
      if (extents[i] && !forms.equal(*extents[i], grid.coords[i].extent))
        v.report(33, site,
                 fmt::format("coordinate {} has extent {}, its body has {}", grid.coords[i].name,
                             v.text.expr(grid.coords[i].extent), v.text.expr(*extents[i])));
    v.text.coords.clear();
  }
};

}  // namespace

void check_footprints(Verifier& v, const TaskProgram& program) {
  Footprints footprints{v, program};
  for (GridId g : program.grids.ids()) footprints.check(g);
}

namespace {

// Returns the bounds that a symbol's values reach, or nothing for a name without a meaning.
std::optional<Bounds> reached(const Symbols& symbols, const Symbol& s) {
  const auto bounds_of = [&](const char* name) -> std::optional<Bounds> {
    const SymbolId id = find_symbol(symbols, name);
    return id.valid() ? std::optional(symbols[id].bounds) : std::nullopt;
  };
  const std::optional<Bounds> tokens = bounds_of("T"), requests = bounds_of("B"),
                              context = bounds_of("kv_len"), rows = bounds_of("block_rows");
  if (!tokens) return std::nullopt;
  const int64_t t = tokens->hi;
  for (const char* counted : {"T", "B", "R", "q_len", "kv_len", "block_rows"})
    if (s.name == counted) return Bounds{1, s.bounds.hi};
  if (s.name == "first_row" && s.sums.valid()) return Bounds{0, t - 1};
  const Routing routing = routing_of(symbols);
  if (s.routed && s.name == "active_expert_rows") return Bounds{1, t};
  if (s.routed && s.name == "active_expert_begin") return Bounds{0, routing.choices * t - 1};
  if (!s.cut || !requests || !context || !rows) return std::nullopt;
  const int64_t b = std::min(requests->hi, t), max = rows->hi;
  if (s.name == "blocks") return Bounds{1, std::min(t, (t + b * (max - 1)) / max)};
  if (s.name == "block_first_row") return Bounds{0, t - 1};
  if (s.name == "block_request") return Bounds{0, b - 1};
  if (s.name == "block_kv_len") return Bounds{1, context->hi};
  if (s.name == "partial_positions") return Bounds{kKvTilePositions, kKvChunkPositions};
  return std::nullopt;
}

// Returns the list that a list of this name sums, or nullptr for a name without a meaning.
const char* summed_by(const Symbol& s) {
  if (s.name == "first_row") return "q_len";
  if (s.name == "block_first_row" && s.cut) return "block_rows";
  return s.name == "active_expert_begin" && s.routed ? "active_expert_rows" : nullptr;
}

}  // namespace

void Verifier::check_symbol_bounds() {
  for (SymbolId id : symbols.ids()) {
    const Bounds& found = symbols[id].bounds;
    const std::optional<Bounds> wanted = reached(symbols, symbols[id]);
    if (wanted && (found.lo > wanted->lo || found.hi < wanted->hi))
      report(34, symbol_site(id),
             fmt::format("its bounds are {} to {}, its values reach from {} to {}", found.lo, found.hi,
                         wanted->lo, wanted->hi));
    const char* summed = summed_by(symbols[id]);
    if (summed && (!symbols[id].sums.valid() || symbols[symbols[id].sums].name != summed))
      report(34, symbol_site(id), fmt::format("it does not sum {}", summed));
  }
}

}  // namespace mkc
