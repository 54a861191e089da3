#include <fmt/format.h>

#include <algorithm>

#include "ir/bodies/body.h"

namespace mkc {
namespace {

// GridCheck checks V15 to V20 and V22 of one grid.
struct GridCheck {
  Verifier& v;
  const TaskProgram& program;
  GridId id;
  const TaskGrid& grid;
  const Domain& domain;
  Site site;
  Sizes sizes{};

  void check();
  void check_coords();
  void check_rows();
  void check_rotation();
  void check_rounding();
  void check_accesses(Part part, const std::vector<Access>& accesses, const std::vector<RoleSchema>& roles);
  void check_stream(Part part, const Access& access, const Site& at);
};

void GridCheck::check() {
  const BodySchema& schema = body_schema(grid.body);
  v.check_attr_order(grid.attrs, site);
  if (!v.check_attrs(18, grid.attrs, schema.int_attrs, schema.float_attrs, site)) return;
  for (const NamedDim& dim : dims_of(grid.attrs)) sizes.emplace(dim.letter, dim.size);
  check_accesses(Part::kRead, grid.reads, schema.reads);
  check_accesses(Part::kWrite, grid.writes, schema.writes);
  check_coords();
  check_rows();
  check_rounding();
  if (const int64_t from = int_attr(grid.attrs, "wgmma_from", UINT32_MAX); from < kMinWgmmaFrom)
    v.report(18, site, fmt::format("wgmma_from is {}, expected at least {}", from, kMinWgmmaFrom));
  if (const int64_t from = int_attr(grid.attrs, "fp8_from", UINT32_MAX); from < kMinFp8From)
    v.report(18, site, fmt::format("fp8_from is {}, expected at least {}", from, kMinFp8From));
  check_rotation();
  if (const auto check_body = body_of(grid.body).check) check_body({v, program, grid, sizes, site});
}

void GridCheck::check_accesses(Part part, const std::vector<Access>& accesses,
                               const std::vector<RoleSchema>& roles) {
  std::set<std::string_view> seen;
  std::set<std::pair<std::string_view, bool>> taken;
  for (uint32_t i = 0; i < accesses.size(); ++i) {
    const Access& access = accesses[i];
    const Site at = part_site(program, id, part, i);
    v.check_box(20, access.region, v.tensors[access.tensor].shape, domain, v.text.tensor(access.tensor), at);
    check_stream(part, access, at);
    seen.insert(access.role);
    if (!taken.emplace(access.role, access.stream).second) {
      v.report(15, at, "it has this role twice");
      continue;
    }
    const auto role = std::find_if(roles.begin(), roles.end(),
                                   [&](const RoleSchema& r) { return role_name(r.name) == access.role; });
    if (role == roles.end())
      v.report(15, at, fmt::format("{} has no such role", body_name(grid.body)));
    else
      v.check_operand(16, access.role, access.tensor, role->operand, sizes, at);
  }
  for (const RoleSchema& role : roles)
    if (role_name(role.name) == role.name && !seen.contains(role.name))
      v.report(15, site, fmt::format("it {} no {}", part == Part::kRead ? "reads" : "writes", role.name));
}

// Checks V15 of the roles next_norm, x_bf16, sum_squares and norm.
void GridCheck::check_rounding() {
  const bool next = find_operand(grid, "next_norm"), x_bf16 = find_operand(grid, "x_bf16", true);
  if (next != x_bf16 || next != (find_operand(grid, "sum_squares", true) != nullptr))
    v.report(15, site, "it has some of next_norm, x_bf16 and sum_squares, expected all or none");
  const Access* x = multiplied_rows(grid);
  if (!x) return;
  const bool is_bf16 = v.tensors[x->tensor].dtype == DType::bf16;
  if (is_bf16 && find_operand(grid, "norm"))
    v.report(15, site, fmt::format("it reads a norm, expected sum_squares, as {} is bf16", x->role));
  if (!is_bf16 && find_operand(grid, "sum_squares"))
    v.report(15, site, fmt::format("it reads sum_squares, expected a norm, as {} is not bf16", x->role));
}

// Checks V22.
void GridCheck::check_stream(Part part, const Access& access, const Site& at) {
  const TensorKind kind = v.tensors[access.tensor].kind;
  const bool may = kind == TensorKind::kWeight || kind == TensorKind::kCache;
  if (access.stream && (part == Part::kWrite || !may))
    v.report(22, at,
             fmt::format("it streams the {} {}, expected a weight or cache that is read", keyword(kind),
                         v.text.tensor(access.tensor)));
}

// Tells whether the extent of coordinate i depends on a coordinate other than i - 1.
bool depends_before(const Expr& extent, size_t i) {
  return std::any_of(extent.nodes.begin(), extent.nodes.end(), [&](const ExprNode& node) {
    return node.kind == ExprKind::kCoord && static_cast<size_t>(node.value) + 1 != i;
  });
}

// Checks V19.
void GridCheck::check_coords() {
  const std::vector<CoordSchema>& schema = body_schema(grid.body).coords;
  if (grid.coords.size() != schema.size())
    return v.report(
        19, site,
        fmt::format("{} coordinates, {} has {}", grid.coords.size(), body_name(grid.body), schema.size()));
  for (size_t i = 0; i < schema.size(); ++i) {
    const Coord& c = grid.coords[i];
    if (uses_coord(c.extent) && (i + 1 != schema.size() || depends_before(c.extent, i)))
      v.report(
          19, site,
          fmt::format("the extent of coordinate {} depends on another, expected of the last coordinate, on "
                      "the one before it",
                      c.name));
    const int64_t expected = body_of(grid.body).min_extent;
    if (const int64_t min = lower_bound(c.extent, domain); min < expected)
      v.report(19, site,
               fmt::format("coordinate {} may have extent {}, expected at least {}", c.name, min, expected));
    const auto size = sizes.find(schema[i].dims[0]);
    if (size != sizes.end() && size->second != c.extent)
      v.report(19, site,
               fmt::format("coordinate {} has extent {}, expected {}", c.name, v.text.expr(c.extent),
                           v.text.expr(size->second)));
  }
  if (!has_few_tasks(grid, v.at_symbols)) v.report(19, site, fmt::format("more than {} tasks", kMaxTasks));
}

// Checks V17 of rows of experts: one row for each choice of each token.
void GridCheck::check_rows() {
  for (const char letter : {'R', 'T', 'k'})
    if (!sizes.contains(letter)) return;
  if (const Expr wanted = sizes['k'] * sizes['T']; sizes['R'] != wanted)
    v.report(
        17, site,
        fmt::format("it has {} rows of experts, expected {}", v.text.expr(sizes['R']), v.text.expr(wanted)));
}

// Checks V15: a rotation has positions and a table. Attention has its rows' positions from the step's lists.
void GridCheck::check_rotation() {
  if (grid.body == BodyKind::kAppend || grid.body == BodyKind::kAttend) return;
  const bool positions = find_operand(grid, "positions"), rope = find_operand(grid, "rope");
  if (positions != rope)
    v.report(15, site,
             fmt::format("it reads {} alone, expected positions and rope, or neither",
                         rope ? "rope" : "positions"));
}

// Checks V21.
void check_grid_order(Verifier& v, const TaskProgram& program) {
  std::vector<bool> written(program.tensors.size(), false);
  for (GridId g : program.grids.ids()) {
    const TaskGrid& grid = program.grids[g];
    for (uint32_t i = 0; i < grid.reads.size(); ++i) {
      const TensorId t = grid.reads[i].tensor;
      if (is_computed(v.tensors[t].kind) && !written[t.index])
        v.report(21, part_site(program, g, Part::kRead, i),
                 fmt::format("no grid before it writes {}", v.text.tensor(t)));
    }
    for (const Access& write : grid.writes) written[write.tensor.index] = true;
  }
}

// Checks V1 and V2 of a grid.
void check_grid_names(Verifier& v, const TaskProgram& program, GridId id, const Site& site) {
  const TaskGrid& grid = program.grids[id];
  std::set<std::string_view> taken;
  for (const Symbol& s : program.symbols) taken.insert(s.name);
  for (const Coord& c : grid.coords)
    if (c.name.empty() || !taken.insert(c.name).second)
      v.report(1, site,
               fmt::format("coordinate {}: a symbol or coordinate has this name, or it has none",
                           spell_name(c.name)));
  const auto check_access = [&](const Access& a, Part part, uint32_t i) {
    v.check_id(program.tensors.contains(a.tensor), part_site(program, id, part, i),
               "tensor " + v.text.tensor(a.tensor));
  };
  for (uint32_t i = 0; i < grid.reads.size(); ++i) check_access(grid.reads[i], Part::kRead, i);
  for (uint32_t i = 0; i < grid.writes.size(); ++i) check_access(grid.writes[i], Part::kWrite, i);
  for (uint32_t i = 0; i < grid.waits.size(); ++i)
    v.check_id(program.events.contains(grid.waits[i].event), part_site(program, id, Part::kWait, i),
               "the event");
  for (uint32_t i = 0; i < grid.notifies.size(); ++i)
    v.check_id(program.events.contains(grid.notifies[i].event), part_site(program, id, Part::kNotify, i),
               "the event");
}

// Checks V4 of a grid. Its coordinates are added to `domain`.
void check_grid_exprs(Verifier& v, const TaskProgram& program, GridId id, const Site& site, Domain& domain) {
  const TaskGrid& grid = program.grids[id];
  v.text.coords.clear();
  for (const Coord& c : grid.coords) {
    if (!v.check_expr(c.extent, domain, site, "extent")) return;
    add_coord(domain, c.extent);
    v.text.add_coord(c);
  }
  const auto check_region = [&](const Region& region, Part part, uint32_t i) {
    const int64_t limit = part == Part::kNotify ? kMaxDeviceValue : kMaxValue;  // bodies find their regions
    for (const Range& r : region) {
      v.check_expr(r.offset, domain, part_site(program, id, part, i), "offset", limit);
      v.check_expr(r.size, domain, part_site(program, id, part, i), "size", limit);
    }
  };
  for (uint32_t i = 0; i < grid.reads.size(); ++i) check_region(grid.reads[i].region, Part::kRead, i);
  for (uint32_t i = 0; i < grid.writes.size(); ++i) check_region(grid.writes[i].region, Part::kWrite, i);
  for (uint32_t i = 0; i < grid.waits.size(); ++i)
    for (const Expr& cell : grid.waits[i].cell)
      v.check_expr(cell, domain, part_site(program, id, Part::kWait, i), "cell");
  for (uint32_t i = 0; i < grid.notifies.size(); ++i) check_region(grid.notifies[i].cells, Part::kNotify, i);
  v.text.coords.clear();
}

}  // namespace

bool check_program(Verifier& v, const TaskProgram& program) {
  std::vector<Site> sites;
  for (GridId g : program.grids.ids())
    sites.push_back(
        {{Part::kGrid, g.index}, "grid %" + spell_name(program.grids[g].name), &program.grids[g].loc});
  v.check_names_and_symbols();
  v.check_names(program.events, "event", Part::kEvent);
  v.check_names(program.grids, "grid", Part::kGrid);
  v.check_rope_ids(program.ropes);
  for (GridId g : program.grids.ids()) check_grid_names(v, program, g, sites[g.index]);
  if (!v.errors.empty()) return false;

  std::vector<Domain> domains(program.grids.size(), v.at_symbols);
  v.check_shapes();
  check_event_exprs(v, program);
  for (GridId g : program.grids.ids()) check_grid_exprs(v, program, g, sites[g.index], domains[g.index]);
  if (!v.errors.empty()) return false;

  v.check_tensors(program.ropes);
  v.check_routed_symbols();
  v.check_cut_symbols();
  v.check_symbol_bounds();
  for (GridId g : program.grids.ids()) {
    v.text.set_coords(program.grids[g]);
    GridCheck{v, program, g, program.grids[g], domains[g.index], sites[g.index]}.check();
    v.text.coords.clear();
  }
  check_grid_order(v, program);
  check_events(v, program, domains);
  if (v.errors.empty()) check_routed(v, program);
  return true;
}

std::vector<Error> verify(const TaskProgram& program, const Places* places) {
  Verifier v(program.name, program.symbols, program.tensors, places);
  check_program(v, program);
  if (v.errors.empty()) check_footprints(v, program);
  return v.errors;
}

}  // namespace mkc
