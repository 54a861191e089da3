// V33 and V34 are checked here: the regions of accesses, and the bounds of symbols.
#include <fmt/format.h>

#include <algorithm>

#include "ir/bodies/body.h"
#include "ir/footprint.h"
#include "ir/form.h"
#include "ir/values.h"

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

  void check(GridId id) {
    const TaskGrid& grid = program.grids[id];
    const Site site{{Part::kGrid, id.index}, "grid %" + spell_name(grid.name), &grid.loc};
    v.text.set_coords(grid);
    for (uint32_t i = 0; i < grid.reads.size(); ++i) check_access(id, Part::kRead, i, grid.reads[i]);
    for (uint32_t i = 0; i < grid.writes.size(); ++i) check_access(id, Part::kWrite, i, grid.writes[i]);
    if (const auto check_body = body_of(grid.body).check_regions) check_body(v, program, grid, site);
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

// Returns the bounds that a cut symbol's values reach, or nothing for a symbol of no block.
std::optional<Bounds> reached_by_blocks(const Symbols& symbols, const StepSymbols& step, SymbolId id) {
  if (!step.blocks || !step.requests.valid() || !step.kv_len.valid() || !step.blocks->rows.valid()) return {};
  const RowBlocks& blocks = *step.blocks;
  if (blocks.max_rows < 1) return {};
  const int64_t tokens = symbols[step.tokens].bounds.hi, max_rows = blocks.max_rows,
                requests = std::min(symbols[step.requests].bounds.hi, tokens);
  if (id == blocks.count) return Bounds{1, std::min(tokens, (tokens + requests * (max_rows - 1)) / max_rows)};
  if (id == blocks.first_row) return Bounds{0, tokens - 1};
  if (id == blocks.request) return Bounds{0, requests - 1};
  if (id == blocks.kv_len) return Bounds{1, symbols[step.kv_len].bounds.hi};
  if (id == blocks.partial_positions) return Bounds{kKvTilePositions, kKvChunkPositions};
  return {};
}

// Returns the bounds that a symbol's values reach, or nothing for a name without a meaning.
std::optional<Bounds> reached(const Symbols& symbols, const StepSymbols& step, SymbolId id) {
  if (!step.tokens.valid()) return {};
  const Symbol& s = symbols[id];
  const int64_t tokens = symbols[step.tokens].bounds.hi;
  // The host refuses steps of more tokens, requests or positions, and blocks are cut by their greatest number
  // of rows.
  for (const SymbolId limited :
       {step.tokens, step.requests, step.kv_len, step.blocks ? step.blocks->rows : SymbolId{}})
    if (id == limited) return Bounds{1, std::max<int64_t>(1, s.bounds.hi)};
  if (id == step.logit_rows) return Bounds{1, tokens};
  if (id == step.q_len)
    return Bounds{1, step.kv_len.valid() ? std::min(tokens, symbols[step.kv_len].bounds.hi) : tokens};
  if (id == step.first_row && s.sums.valid()) return Bounds{0, tokens - 1};
  if (s.routed && id == step.active_expert_rows) return Bounds{1, tokens};
  if (s.routed && id == step.active_expert_begin) return Bounds{0, routing_of(symbols).choices * tokens - 1};
  return s.cut ? reached_by_blocks(symbols, step, id) : std::nullopt;
}

// Returns the name of the list that this list sums, or nullptr for a list without a meaning.
const char* summed_by(const Symbol& s, const StepSymbols& step, SymbolId id) {
  if (id == step.first_row) return mkrt::kQLenSymbol;
  if (step.blocks && id == step.blocks->first_row && s.cut) return kBlockRowsSymbol;
  return id == step.active_expert_begin && s.routed ? kActiveExpertRowsSymbol : nullptr;
}

// Tells whether the host fills the list, with an element for each request of a step.
bool is_by_request(const StepSymbols& step, SymbolId id) {
  return id == step.q_len || id == step.kv_len || id == step.first_row;
}

// Tells whether the host, a worker or a route gives the symbol its values in each step.
bool is_given(const Symbols& symbols, const StepSymbols& step, SymbolId id) {
  const Symbol& s = symbols[id];
  if (s.cut || s.routed) return true;  // V31 and V32 check these
  if (s.is_list()) return is_by_request(step, id);
  return id == step.tokens || id == step.requests || id == step.logit_rows;
}

}  // namespace

void Verifier::check_given_symbols() {
  const StepSymbols step = step_symbols(symbols);
  for (SymbolId id : symbols.ids()) {
    const int64_t hi = symbols[id].bounds.hi;
    if (!is_given(symbols, step, id)) report(34, symbol_site(id), "no step gives it a value");
    const int64_t max = id == step.tokens     ? kMaxStepTokens
                        : id == step.requests ? kMaxStepRequests
                                              : INT64_MAX;
    if (hi > max) report(34, symbol_site(id), fmt::format("it may be {}, a step has at most {}", hi, max));
    if (is_by_request(step, id) && !(step.requests.valid() && symbols[id].length == symbol(step.requests)))
      report(34, symbol_site(id),
             fmt::format("its length is {}, expected {}, the step's requests", text.expr(symbols[id].length),
                         mkrt::kRequestsSymbol));
  }
}

void Verifier::check_symbol_bounds() {
  const StepSymbols step = step_symbols(symbols);
  for (SymbolId id : symbols.ids()) {
    const Bounds& found = symbols[id].bounds;
    const std::optional<Bounds> wanted = reached(symbols, step, id);
    if (wanted && (found.lo > wanted->lo || found.hi < wanted->hi))
      report(34, symbol_site(id),
             fmt::format("its bounds are {} to {}, its values reach from {} to {}", found.lo, found.hi,
                         wanted->lo, wanted->hi));
    const char* summed = summed_by(symbols[id], step, id);
    if (summed && (!symbols[id].sums.valid() || symbols[symbols[id].sums].name != summed))
      report(34, symbol_site(id), fmt::format("it does not sum {}", summed));
  }
}

}  // namespace mkc
