#include "scheduler/proof/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/bodies.h"
#include "runtime/abi/packing.h"

namespace mkc::proof {
namespace {

constexpr int64_t kMaxShapes = 1 << 16;

uint64_t elements_at(const Tensor& tensor, const std::vector<int64_t>& symbols) {
  uint64_t elements = 1;
  for (const Expr& dim : tensor.shape)
    elements *= static_cast<uint64_t>(std::max<int64_t>(0, evaluate(dim, symbols)));
  return elements;
}

// Returns the most elements that a tensor has at any values. A shape may shrink with a symbol, so the
// symbols' upper bounds do not suffice. All values of the symbols are walked. Each dim is bounded instead
// where the values are too many.
uint64_t max_elements(const Context& c, const Tensor& tensor) {
  std::set<uint32_t> symbols;
  for (const Expr& dim : tensor.shape)
    for (const ExprNode& node : dim.nodes)
      if (node.kind == ExprKind::kSymbol) symbols.insert(static_cast<uint32_t>(node.value));
  int64_t values = 1;
  for (const uint32_t s : symbols) {
    const Bounds& b = c.at_symbols.symbols[s];
    values = b.hi - b.lo >= kMaxShapes / values ? kMaxShapes + 1 : values * (b.hi - b.lo + 1);
    if (values > kMaxShapes) break;
  }
  if (values > kMaxShapes) {
    uint64_t elements = 1;
    for (const Expr& dim : tensor.shape)
      elements *= static_cast<uint64_t>(std::max<int64_t>(0, upper_bound(dim, c.at_symbols)));
    return elements;
  }
  std::vector<int64_t> at(c.at_symbols.symbols.size(), 0);
  for (const uint32_t s : symbols) at[s] = c.at_symbols.symbols[s].lo;
  uint64_t max = 0;
  for (int64_t value = 0; value < values; ++value) {
    max = std::max(max, elements_at(tensor, at));
    for (const uint32_t s : symbols) {
      if (++at[s] <= c.at_symbols.symbols[s].hi) break;
      at[s] = c.at_symbols.symbols[s].lo;
    }
  }
  return max;
}

uint64_t packed_bytes_of(const Tensor& weight) {
  const size_t rank = weight.shape.size();
  const auto dim = [&](size_t i) { return static_cast<uint64_t>(weight.shape[i].constant()); };
  const uint64_t matrices = rank == 3 ? dim(0) : 1;
  return matrices * mkrt::packed_shape(dim(rank - 2), dim(rank - 1), weight_type(weight)).bytes;
}

// Returns the bytes of a tensor's slot that the tensor needs.
uint64_t bytes_needed(const Context& c, TensorId t, bool is_read) {
  const Tensor& tensor = c.p.tensors[t];
  const auto element = static_cast<uint64_t>(dtype_bytes(tensor.dtype));
  switch (tensor.kind) {
    case TensorKind::kInput:
    case TensorKind::kCache:
      return 0;
    case TensorKind::kWeight:
      if (!is_read) return 0;
      if (!tensor.packing.sources.empty()) return packed_bytes_of(tensor);
      return max_elements(c, tensor) * (tensor.shape.size() < 2 ? 4 : element);
    case TensorKind::kTable:
      return max_elements(c, tensor) * 4;
    case TensorKind::kActivation:
    case TensorKind::kOutput:
      return max_elements(c, tensor) * element;
  }
  MKC_BUG("tensor of unknown kind");
}

struct Extent {
  uint64_t begin, end;
  std::string name;
  Subject subject;
};

Status check_apart(const Context& c, std::vector<Extent> extents, uint64_t arena_end, const char* arena) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i].end > arena_end)
      return c.wrong(extents[i].subject, fmt::format("{} ends at {}, beyond the {} of {}", extents[i].name,
                                                     extents[i].end, arena, arena_end));
    if (i > 0 && extents[i].begin < extents[i - 1].end)
      return c.wrong(extents[i].subject,
                     fmt::format("{} and {} overlap in the {}", extents[i - 1].name, extents[i].name, arena));
  }
  return {};
}

Status check_counters(const Context& c) {
  if (c.s.event_base.size() != c.p.events.size())
    return c.wrong({Part::kHeader},
                   fmt::format("{} events have {} counter bases", c.p.events.size(), c.s.event_base.size()));
  std::vector<Extent> counters;
  for (EventId e : c.p.events.ids()) {
    // Code places an event's log behind as many cells.
    const uint64_t cells = max_cells(c.p, e);
    // A log has one counter of its entries, and an entry for each cell.
    const uint64_t all = keeps_log(c.s, e) ? 2 * cells + 1 : cells, base = c.s.event_base[e.index];
    counters.push_back({base, base + all, "@" + c.p.events[e].name, subject_of(e)});
  }
  for (GridId g : c.p.grids.ids())
    if (const Placement& p = c.s.placements[g.index]; claims_by_ticket(p.kind))
      counters.push_back(
          {p.tickets, uint64_t{p.tickets} + 1, "tickets of %" + c.p.grids[g].name, subject_of(g)});
  return check_apart(c, std::move(counters), c.s.event_cells, "counters");
}

}  // namespace

Status check_memory(const Context& c) {
  if (c.s.slots.size() != c.p.tensors.size())
    return c.wrong({Part::kHeader},
                   fmt::format("{} tensors have {} slots", c.p.tensors.size(), c.s.slots.size()));
  std::vector<bool> is_read(c.p.tensors.size(), false);
  for (const TaskGrid& grid : c.p.grids)
    for (const Access& read : grid.reads) is_read[read.tensor.index] = true;
  std::vector<Extent> weights, outputs, activations;
  for (TensorId t : c.p.tensors.ids()) {
    const Slot& slot = c.s.slots[t.index];
    const Tensor& tensor = c.p.tensors[t];
    const uint64_t needed = bytes_needed(c, t, is_read[t.index]);
    if (slot.bytes < needed)
      return c.wrong(subject_of(t), fmt::format("the slot of %{} has {} bytes, it needs {}", tensor.name,
                                                slot.bytes, needed));
    if (slot.bytes == 0) continue;
    const bool is_weight = tensor.kind == TensorKind::kWeight || tensor.kind == TensorKind::kTable;
    auto& kind = is_weight ? weights : tensor.kind == TensorKind::kOutput ? outputs : activations;
    if (tensor.kind != TensorKind::kInput && tensor.kind != TensorKind::kCache)
      kind.push_back({slot.offset, slot.offset + slot.bytes, "%" + tensor.name, subject_of(t)});
  }
  // An output outlives the step, so it shares with nothing. Activations are each checked against it, as if
  // all of them were one.
  for (const Extent& output : outputs)
    for (const Extent& activation : activations)
      if (Status status = check_apart(c, {output, activation}, c.s.workspace_bytes, "workspace");
          !status.ok())
        return status;
  for (const Extent& activation : activations)
    if (Status status = check_apart(c, {activation}, c.s.workspace_bytes, "workspace"); !status.ok())
      return status;
  if (Status status = check_apart(c, std::move(weights), c.s.weight_bytes, "weights"); !status.ok())
    return status;
  if (Status status = check_apart(c, std::move(outputs), c.s.workspace_bytes, "workspace"); !status.ok())
    return status;
  return check_counters(c);
}

namespace {

// Tenant is a tensor in the workspace and its users.
struct Tenant {
  TensorId tensor;
  Slot slot;
  GridId writer;
  std::vector<GridId> users;
  // Workers without a task look the tensor up too. No event orders these reads before a later write.
  bool looked_up = false;
};

std::vector<Tenant> tenants_of(const Context& c, const Order& order) {
  std::vector<Tenant> all(c.p.tensors.size());
  for (GridId g : c.p.grids.ids()) {
    for (const Access& a : c.p.grids[g].reads) {
      all[a.tensor.index].users.push_back(g);
      all[a.tensor.index].looked_up |= looks_up(c.p.grids[g].body, a.role);
    }
    for (const Access& a : c.p.grids[g].writes) {
      all[a.tensor.index].users.push_back(g);
      all[a.tensor.index].writer = g;
    }
  }
  std::vector<uint32_t> position(c.p.grids.size());
  for (uint32_t i = 0; i < order.sorted.size(); ++i) position[order.sorted[i]] = i;
  std::vector<Tenant> tenants;
  for (TensorId t : c.p.tensors.ids()) {
    Tenant& tenant = all[t.index];
    tenant.tensor = t, tenant.slot = c.s.slots[t.index];
    if (c.p.tensors[t].kind == TensorKind::kActivation && tenant.writer.valid() && tenant.slot.bytes != 0)
      tenants.push_back(std::move(tenant));
  }
  std::sort(tenants.begin(), tenants.end(), [&](const Tenant& a, const Tenant& b) {
    return std::pair(position[a.writer.index], a.tensor) < std::pair(position[b.writer.index], b.tensor);
  });
  return tenants;
}

Status check_pair(Context& c, const Order& order, const Tenant& first, const Tenant& second) {
  const std::string names =
      fmt::format("%{} and %{}", c.p.tensors[first.tensor].name, c.p.tensors[second.tensor].name);
  if (first.looked_up)
    return c.wrong(subject_of(second.tensor),
                   fmt::format("{} share memory, but the first may be looked up until the step ends", names));
  for (const GridId user : first.users)
    if (!order.before[second.writer.index][user.index])
      return c.unproved(
          subject_of(second.tensor),
          fmt::format("{} share memory: %{} is done with the first before %{} writes the second", names,
                      c.p.grids[user].name, c.p.grids[second.writer].name));
  ++c.report.symbolic;
  return {};
}

// Removes `slot` from `left`, the intervals of a tenant that later tenants have not taken yet.
void take(std::vector<Interval>& left, const Slot& slot) {
  const auto begin = static_cast<int64_t>(slot.offset), end = begin + static_cast<int64_t>(slot.bytes);
  std::vector<Interval> rest;
  for (const Interval& i : left) {
    if (i.first < std::min(i.second, begin)) rest.emplace_back(i.first, std::min(i.second, begin));
    if (std::max(i.first, end) < i.second) rest.emplace_back(std::max(i.first, end), i.second);
  }
  left = std::move(rest);
}

bool meets(const std::vector<Interval>& left, const Slot& slot) {
  const auto begin = static_cast<int64_t>(slot.offset), end = begin + static_cast<int64_t>(slot.bytes);
  return std::any_of(left.begin(), left.end(),
                     [&](const Interval& i) { return std::max(i.first, begin) < std::min(i.second, end); });
}

}  // namespace

// Each tenant is checked only against the tenants that take its memory next. Let tenants a, b and c take the
// same memory in this order, where the writer of b has a task. Accesses of a precede all writes of b, which
// precede all writes of c. Accesses of a therefore precede all writes of c.
Status check_sharing(Context& c, const Order& order) {
  const std::vector<Tenant> tenants = tenants_of(c, order);
  for (size_t i = 0; i < tenants.size(); ++i) {
    const auto begin = static_cast<int64_t>(tenants[i].slot.offset);
    std::vector<Interval> left = {{begin, begin + static_cast<int64_t>(tenants[i].slot.bytes)}};
    for (size_t j = i + 1; j < tenants.size() && !left.empty(); ++j) {
      if (!meets(left, tenants[j].slot)) continue;
      if (Status status = check_pair(c, order, tenants[i], tenants[j]); !status.ok()) return status;
      if (c.never_empty(tenants[j].writer)) take(left, tenants[j].slot);
    }
  }
  return {};
}

}  // namespace mkc::proof
