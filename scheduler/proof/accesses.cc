#include "scheduler/proof/accesses.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/bodies.h"

namespace mkc::proof {
namespace {

struct Use {
  GridId grid;
  const Access* access;
  std::vector<Along> dims;
};

// Uses are the accesses of one tensor, in program order.
struct Uses {
  std::vector<Use> reads, writes;
};

std::vector<Along> dims_of(Context& c, GridId g, const Access& access) {
  std::vector<Along> dims;
  const std::vector<Expr>& shape = c.p.tensors[access.tensor].shape;
  for (size_t d = 0; d < shape.size(); ++d) dims.push_back(along(c, g, access.region[d], shape[d]));
  return dims;
}

std::vector<Uses> uses_of(Context& c) {
  std::vector<Uses> uses(c.p.tensors.size());
  for (GridId g : c.p.grids.ids()) {
    for (const Access& a : c.p.grids[g].reads)
      if (is_computed(c.p.tensors[a.tensor].kind))
        uses[a.tensor.index].reads.push_back({g, &a, dims_of(c, g, a)});
    for (const Access& a : c.p.grids[g].writes)
      if (is_computed(c.p.tensors[a.tensor].kind))
        uses[a.tensor.index].writes.push_back({g, &a, dims_of(c, g, a)});
  }
  return uses;
}

std::string grid_name(const Context& c, GridId g) {
  return "%" + c.p.grids[g].name;
}
std::string tensor_name(const Context& c, TensorId t) {
  return "%" + c.p.tensors[t].name;
}

// Checks that two tasks of a grid never write one element: each coordinate decides a dim.
Status check_written_once(Context& c, TensorId t, const Use& write) {
  const TaskGrid& grid = c.p.grids[write.grid];
  for (uint32_t by = 0; by < grid.coords.size(); ++by) {
    if (constant_extent(grid, by) == std::optional<int64_t>(1)) continue;
    const bool decides = std::any_of(write.dims.begin(), write.dims.end(), [&](const Along& dim) {
      return dim.moves() && dim.coord == by && disjoint(dim);
    });
    if (!decides)
      return c.unproved(subject_of(write.grid),
                        fmt::format("tasks of {} that differ in {} write different elements of {}",
                                    grid_name(c, write.grid), grid.coords[by].name, tensor_name(c, t)));
  }
  ++c.report.symbolic;
  return {};
}

// Tells whether the intervals of a table cover the dim from 0 to its end without gaps, in any order.
bool covers(const Along& table, int64_t dim) {
  std::vector<Interval> sorted = table.intervals;
  std::sort(sorted.begin(), sorted.end());
  int64_t end = 0;
  for (const Interval& i : sorted) {
    if (i.first >= i.second) continue;
    if (i.first > end) return false;
    end = std::max(end, i.second);
  }
  return end >= dim;
}

// Tells whether the expression mentions a routed symbol, whose value may differ between grids.
bool uses_routed(const Context& c, const Expr& e) {
  return std::any_of(e.nodes.begin(), e.nodes.end(), [&](const ExprNode& node) {
    return (node.kind == ExprKind::kSymbol || node.kind == ExprKind::kElement) &&
           c.p.symbols[SymbolId{static_cast<uint32_t>(node.value)}].routed;
  });
}

// Tells whether a reader asks for elements [0, parts) along a ragged dim. `parts` belongs to the value of the
// coordinate before, which `to` has along another dim.
bool reads_all_parts(Context& c, const Use& write, const Along& ragged, const Use& read, size_t dim) {
  const uint32_t row = ragged.coord - 1;
  const TaskGrid &writer = c.p.grids[write.grid], &reader = c.p.grids[read.grid];
  if (uses_routed(c, writer.coords[ragged.coord].extent)) return false;
  for (size_t d = 0; d < write.dims.size(); ++d) {
    const Along &from = write.dims[d], &to = read.dims[d];
    if (!from.moves() || from.coord != row || !to.moves() || !meet_only_if_equal(from, to)) continue;
    // The extent is that of the writer's row, expressed in the reader's coordinates.
    std::vector<Form> rows(writer.coords.size(), c.forms.coord(UINT32_MAX));
    rows[row] = c.forms.coord(to.coord);
    const Form parts = c.forms.of(writer.coords[ragged.coord].extent, rows);
    const Range& range = read.access->region[dim];
    const Along& wanted = read.dims[dim];
    if (wanted.kind == Along::Kind::kRagged)
      return wanted.coord == to.coord + 1 &&
             Forms::equal(c.forms.of(reader.coords[wanted.coord].extent), parts);
    const Form size = c.forms.of(range.size), limit = c.forms.of(c.p.tensors[read.access->tensor].shape[dim]);
    return c.forms.of(range.offset).is_const(0) &&
           (Forms::equal(size, parts) || Forms::equal(size, c.forms.min(parts, limit)));
  }
  return false;
}

// Tells whether a reader's task asks for elements [0, extent) along a dim whose elements the writer's tasks
// write one by one.
bool reads_extent(Context& c, const Expr& extent, const Range& range) {
  return !uses_coord(extent) && !uses_routed(c, extent) && c.forms.of(range.offset).is_const(0) &&
         c.forms.equal(range.size, extent);
}

// Tells whether all tasks of the writer together have written what a reader's task asks for along one dim.
bool covered_along(Context& c, const Use& write, const Use* read, size_t d) {
  const TensorId t = write.access->tensor;
  const Expr& dim = c.p.tensors[t].shape[d];
  const Along& by = write.dims[d];
  switch (by.kind) {
    case Along::Kind::kWhole:
      return true;
    case Along::Kind::kTable:
      return covers(by, dim.constant());
    case Along::Kind::kEach: {
      const Expr& extent = c.p.grids[write.grid].coords[by.coord].extent;
      return c.forms.equal(extent, dim) || (read && reads_extent(c, extent, read->access->region[d]));
    }
    case Along::Kind::kSpans:
      ++c.report.lemmas;
      return true;
    case Along::Kind::kRagged:
      return read && reads_all_parts(c, write, by, *read, d);
    case Along::Kind::kOther:
      return false;
  }
  MKC_BUG("dim of unknown kind");
}

// Checks that the writer covers what `read` reads. A null `read` stands for the whole tensor.
Status check_covered(Context& c, TensorId t, const Use& write, const Use* read) {
  const std::string who = read ? fmt::format("{} reads", grid_name(c, read->grid)) : "the host reads";
  const auto fail = [&](const std::string& why) {
    return c.unproved(subject_of(read ? read->grid : write.grid),
                      fmt::format("what {} of {} has been written by {}: {}", who, tensor_name(c, t),
                                  grid_name(c, write.grid), why));
  };
  std::vector<bool> decided(c.p.grids[write.grid].coords.size(), false);
  for (size_t d = 0; d < write.dims.size(); ++d) {
    const Along& by = write.dims[d];
    if (by.moves() && decided[by.coord]) return fail("one coordinate decides two dims of what is written");
    if (by.moves()) decided[by.coord] = true;
    if (!covered_along(c, write, read, d)) return fail(fmt::format("dim {} may be left out in part", d));
  }
  for (uint32_t i = 0; i < decided.size(); ++i)
    if (!decided[i] && lower_bound(c.p.grids[write.grid].coords[i].extent, c.tasks[write.grid.index]) < 1)
      return fail("it may have no task");
  ++c.report.symbolic;
  return {};
}

Status check_tensor(Context& c, const Sources& sources, const Order& order, TensorId t, const Uses& uses) {
  const bool is_output = c.p.tensors[t].kind == TensorKind::kOutput;
  if (uses.writes.empty())
    return is_output ? Status(c.wrong(subject_of(t), fmt::format("nothing writes {}", tensor_name(c, t))))
                     : Status();
  if (uses.writes.size() > 1)
    return c.unproved(
        subject_of(uses.writes[1].grid),
        fmt::format("{} and {} write different elements of {}", grid_name(c, uses.writes[0].grid),
                    grid_name(c, uses.writes[1].grid), tensor_name(c, t)));
  const Use& write = uses.writes[0];
  if (Status status = check_written_once(c, t, write); !status.ok()) return status;
  if (is_output)
    if (Status status = check_covered(c, t, write, nullptr); !status.ok()) return status;
  for (const Use& read : uses.reads) {
    if (read.grid <= write.grid)
      return c.unproved(subject_of(read.grid),
                        fmt::format("{} reads {} behind {}, which writes it", grid_name(c, read.grid),
                                    tensor_name(c, t), grid_name(c, write.grid)));
    if (!ordered_where_they_meet(c, sources, order, write.grid, write.dims, read.grid, read.dims))
      return c.unproved(subject_of(read.grid),
                        fmt::format("{} reads %{} after {} has written it", grid_name(c, read.grid),
                                    c.p.tensors[t].name, grid_name(c, write.grid)));
    if (Status status = check_covered(c, t, write, &read); !status.ok()) return status;
    ++c.report.symbolic;
  }
  return {};
}

}  // namespace

Status check_accesses(Context& c, const Sources& sources, const Order& order) {
  for (GridId g : c.p.grids.ids())
    for (const Access& write : c.p.grids[g].writes) {
      const TensorKind kind = c.p.tensors[write.tensor].kind;
      if (kind == TensorKind::kInput || kind == TensorKind::kWeight || kind == TensorKind::kTable)
        return c.wrong(subject_of(g), fmt::format("{} is written, but is an input, weight or table",
                                                  tensor_name(c, write.tensor)));
    }
  const std::vector<Uses> uses = uses_of(c);
  for (TensorId t : c.p.tensors.ids())
    if (is_computed(c.p.tensors[t].kind))
      if (Status status = check_tensor(c, sources, order, t, uses[t.index]); !status.ok()) return status;
  return {};
}

namespace {

struct CacheUsers {
  GridId append, attend;
};

Result<CacheUsers> users_of(Context& c, TensorId cache) {
  CacheUsers users;
  for (GridId g : c.p.grids.ids()) {
    const TaskGrid& grid = c.p.grids[g];
    const auto names_it = [&](const Access& a) { return a.tensor == cache; };
    if (std::none_of(grid.reads.begin(), grid.reads.end(), names_it) &&
        std::none_of(grid.writes.begin(), grid.writes.end(), names_it))
      continue;
    if (grid.body != BodyKind::kAppend && grid.body != BodyKind::kAttend)
      return c.wrong(subject_of(g),
                     fmt::format("%{} accesses the cache %{}, expected of append and attend grids", grid.name,
                                 c.p.tensors[cache].name));
    GridId& user = grid.body == BodyKind::kAppend ? users.append : users.attend;
    if (user.valid())
      return c.wrong(subject_of(g), fmt::format("%{} and %{} both {} to the cache %{}", c.p.grids[user].name,
                                                grid.name, body_name(grid.body), c.p.tensors[cache].name));
    user = g;
  }
  if (!users.attend.valid() || !users.append.valid())
    return c.unproved(subject_of(cache),
                      fmt::format("%{} is filled: it has no {} grid", c.p.tensors[cache].name,
                                  users.attend.valid() ? "append" : "attend"));
  return users;
}

// Tells whether a grid uses the cache in this role and in no other, in reads and writes.
bool uses_alike(const TaskGrid& grid, TensorId cache, std::string_view role) {
  const auto alike = [&](const Access& a) { return (a.tensor == cache) == (a.role == role); };
  return std::all_of(grid.reads.begin(), grid.reads.end(), alike) &&
         std::all_of(grid.writes.begin(), grid.writes.end(), alike) && find_operand(grid, role, true);
}

Status check_cache(Context& c, const Sources& sources, const Order& order, TensorId cache) {
  const Result<CacheUsers> users = users_of(c, cache);
  if (!users.ok()) return users.error();
  const auto [append, attend] = users.value();
  const TaskGrid &first = c.p.grids[append], &second = c.p.grids[attend];
  if (attend < append)
    return c.wrong(subject_of(attend), fmt::format("%{} stands before %{}, which appends to the cache %{}",
                                                   second.name, first.name, c.p.tensors[cache].name));
  const std::string& role = find_operand(first, "k_cache", true)->tensor == cache ? "k_cache" : "v_cache";
  if (!uses_alike(first, cache, role) || !uses_alike(second, cache, role))
    return c.wrong(subject_of(attend), fmt::format("%{} and %{} use the cache %{} in different roles",
                                                   first.name, second.name, c.p.tensors[cache].name));
  for (const char* attr : {"heads", "kv_heads", "head_dim"})
    if (int_attr(first.attrs, attr, 0) != int_attr(second.attrs, attr, 0))
      return c.wrong(subject_of(attend),
                     fmt::format("%{} and %{} have different {}", first.name, second.name, attr));
  const Access& write = *find_operand(first, role, true);
  for (const auto* accesses : {&second.reads, &second.writes})
    for (const Access& access : *accesses) {
      if (access.tensor != cache || access.stream) continue;
      if (!ordered_where_they_meet(c, sources, order, append, dims_of(c, append, write), attend,
                                   dims_of(c, attend, access)))
        return c.unproved(subject_of(attend), fmt::format("%{} comes after %{} wherever they meet in %{}",
                                                          second.name, first.name, c.p.tensors[cache].name));
    }
  ++c.report.lemmas;
  return {};
}

}  // namespace

Status check_caches(Context& c, const Sources& sources, const Order& order) {
  for (TensorId t : c.p.tensors.ids())
    if (c.p.tensors[t].kind == TensorKind::kCache)
      if (Status status = check_cache(c, sources, order, t); !status.ok()) return status;
  return {};
}

}  // namespace mkc::proof
