#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string_view>

#include "runtime/abi/abi.h"
#include "runtime/abi/packing.h"
#include "runtime/artefact/manifest.h"

namespace mkrt {
namespace {

constexpr uint64_t kMaxHeads = 1 << 16;
constexpr uint32_t kMaxParts = 1 << 16;    // parts of a split product
constexpr uint32_t kMaxWorkers = 1 << 16;  // far beyond the multiprocessors of any GPU
constexpr uint32_t kMaxShared = 1 << 28;   // bytes of a worker; a thread's rows of a product take most

Error refuse_manifest(const std::string& message) {
  return {fmt::format("manifest: error: {}", message)};
}

bool inside(uint64_t offset, uint64_t bytes, uint64_t arena) {
  return offset <= arena && bytes <= arena - offset;
}

Status check_tensor(const ManifestTensor& t, const Manifest& m) {
  uint64_t bits = element_bits(t.element);
  for (uint64_t size : t.shape)
    if (__builtin_mul_overflow(bits, size, &bits))
      return refuse_manifest(fmt::format("tensor {} is too large", t.name));
  const uint64_t bytes = bits / 8;
  if (t.arena == Arena::kInput) return {};
  const uint64_t arena = t.arena == Arena::kWeights ? m.weight_bytes : m.workspace_bytes;
  if (t.bytes < bytes || !inside(t.offset, t.bytes, arena))
    return refuse_manifest(fmt::format("tensor {} of {} bytes has the slot {}+{} in an arena of {} bytes",
                                       t.name, bytes, t.offset, t.bytes, arena));
  return {};
}

Status check_weight(const ManifestWeight& w, const Manifest& m) {
  const std::optional<WeightType> type = find_weight_type(w.element);
  if (!type || (w.layout == WeightLayout::kVector && weight_format(*type).coded()))
    return refuse_manifest(
        fmt::format("weight {} is {}, expected f32, f16 or bf16", w.name, element_name(w.element)));
  if (w.stack == 0 || w.sources.size() % w.stack != 0)
    return refuse_manifest(
        fmt::format("weight {}: {} sources of a stack of {}", w.name, w.sources.size(), w.stack));
  if (w.layout == WeightLayout::kVector && (w.rows != 1 || w.sources.size() != w.stack))
    return refuse_manifest(fmt::format("vector {} has {} rows and {} sources, expected one of each", w.name,
                                       w.rows, w.sources.size() / w.stack));
  constexpr uint64_t kMax = uint64_t{1} << 40;
  if (w.rows == 0 || w.cols == 0 || w.rows > kMax || w.cols > kMax / w.rows / w.stack)
    return refuse_manifest(fmt::format("weight {} has {} rows and {} columns", w.name, w.rows, w.cols));
  const uint64_t bytes = w.layout == WeightLayout::kVector
                             ? w.stack * w.cols * sizeof(float)
                             : w.stack * packed_shape(w.rows, w.cols, *type).bytes;
  if (w.bytes < bytes || !inside(w.offset, w.bytes, m.weight_bytes))
    return refuse_manifest(fmt::format("weight {} of {} bytes has the slot {}+{} in an arena of {} bytes",
                                       w.name, bytes, w.offset, w.bytes, m.weight_bytes));
  const uint64_t sources = w.sources.size() / w.stack;
  if (sources == 0 || w.rows % sources != 0 || (sources > 1) != (w.group > 0) ||
      (w.group > 0 && w.group * sources != kStripRows))  // every group must lie within the strips
    return refuse_manifest(
        fmt::format("weight {}: {} rows of {} sources in groups of {}", w.name, w.rows, sources, w.group));
  return {};
}

// Checks that a product has a packed weight among its operands, and that its record has this weight's sizes.
Status check_product(const ManifestGrid& g, const Manifest& m) {
  if (g.product.empty()) return {};
  MkProduct p{};
  if (g.product.size() * sizeof(uint32_t) != sizeof(p))
    return refuse_manifest(fmt::format("grid {} has a product of {} words, expected {}", g.name,
                                       g.product.size(), sizeof(p) / sizeof(uint32_t)));
  std::memcpy(&p, g.product.data(), sizeof(p));
  const auto weight = std::ranges::find_if(m.weights, [&](const ManifestWeight& w) {
    return w.layout == WeightLayout::kPacked && std::ranges::count(g.operands, w.name) > 0;
  });
  if (weight == m.weights.end())
    return refuse_manifest(fmt::format("grid {} is a product without a weight", g.name));
  const PackedShape s = packed_shape(weight->rows, weight->cols, *find_weight_type(weight->element));
  if (p.rows != s.rows || p.cols != s.cols || p.strips != s.strips || p.tiles != s.tiles ||
      p.tail_cols != s.tail_cols)
    return refuse_manifest(
        fmt::format("grid {} multiplies {}x{} in {} strips of {} tiles, the last of {} columns; weight "
                    "{} is {}x{} in {} of {}, the last of {}",
                    g.name, p.rows, p.cols, p.strips, p.tiles, p.tail_cols, weight->name, s.rows, s.cols,
                    s.strips, s.tiles, s.tail_cols));
  if (p.out_cols > p.rows || p.gate > static_cast<uint32_t>(kLastActivation) || p.out_bf16 > 1 ||
      p.gather_rows > 1 || p.split_k == 0 || p.split_k > kMaxParts || !std::isfinite(p.eps))
    return refuse_manifest(fmt::format("grid {}: a product's numbers are out of bounds", g.name));
  return {};
}

Status check_grid(const ManifestGrid& g, const Manifest& m) {
  if (g.kind >= m.grids.size()) return refuse_manifest(fmt::format("grid {} is of kind {}", g.name, g.kind));
  if (g.waits.size() > kMaxWaits || g.notifies.size() > kMaxNotifies || g.operands.size() > kMaxOperands)
    return refuse_manifest(fmt::format("grid {} has {} waits, {} notifications and {} operands", g.name,
                                       g.waits.size(), g.notifies.size(), g.operands.size()));
  const bool claims = g.placement == GridPlacement::kQueue || g.placement == GridPlacement::kReady;
  if (claims ? g.tickets >= m.event_cells : g.tickets != 0)
    return refuse_manifest(
        fmt::format("grid {} has its tickets in counter {} of {}", g.name, g.tickets, m.event_cells));
  if ((g.placement == GridPlacement::kTable) != (g.tasks != 0))
    return refuse_manifest(fmt::format("grid {} has {} tasks in tables", g.name, g.tasks));
  const auto inlined = static_cast<size_t>(g.inline_grid);
  if (g.inline_grid != -1 && (g.inline_grid < -1 || inlined >= m.grids.size() ||
                              m.grids[inlined].placement != GridPlacement::kInline))
    return refuse_manifest(fmt::format("grid {} runs grid {} inline", g.name, g.inline_grid));
  return check_product(g, m);
}

// Checks that no two events or ticket counters share a counter.
Status check_counters(const Manifest& m) {
  struct Range {
    uint64_t first, end;
    const std::string* name;
  };
  std::vector<Range> ranges;
  for (const ManifestEvent& e : m.events) {
    if (!inside(e.first_cell, e.cells, m.event_cells))
      return refuse_manifest(
          fmt::format("event {} has cells {}+{} of {}", e.name, e.first_cell, e.cells, m.event_cells));
    if (e.cells > 0) ranges.push_back({e.first_cell, uint64_t{e.first_cell} + e.cells, &e.name});
  }
  for (const ManifestGrid& g : m.grids)
    if (g.placement == GridPlacement::kQueue || g.placement == GridPlacement::kReady)
      ranges.push_back({g.tickets, uint64_t{g.tickets} + 1, &g.name});
  std::ranges::sort(ranges, {}, &Range::first);
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].end)
      return refuse_manifest(
          fmt::format("{} and {} share counter {}", *ranges[i - 1].name, *ranges[i].name, ranges[i].first));
  return {};
}

// Checks that kernels of grids are launched in the order of the program.
Status check_launches(const Manifest& m) {
  if (m.launches.empty()) return {};
  std::vector<uint32_t> expected;
  for (uint32_t i = 0; i < m.grids.size(); ++i)
    if (m.grids[i].placement != GridPlacement::kInline) expected.push_back(i);
  if (m.launches == expected) return {};
  return refuse_manifest("launches are not the grids in their order");
}

// Checks that a name that others refer to is given once.
Status check_names(const Manifest& m) {
  std::set<std::string_view> names, events;
  const auto add = [](std::set<std::string_view>& to, std::string_view name) {
    return to.insert(name).second ? Status() : refuse_manifest(fmt::format("two are named {}", name));
  };
  const auto add_all = [&](auto& list, std::set<std::string_view>& to) -> Status {
    for (const auto& item : list)
      if (Status status = add(to, item.name); !status.ok()) return status;
    return {};
  };
  for (const auto* tensors : {&m.inputs, &m.outputs, &m.tensors})
    if (Status status = add_all(*tensors, names); !status.ok()) return status;
  if (Status status = add_all(m.weights, names); !status.ok()) return status;
  if (Status status = add_all(m.ropes, names); !status.ok()) return status;
  if (Status status = add_all(m.caches, names); !status.ok()) return status;
  return add_all(m.events, events);
}

}  // namespace

Status check_manifest(const Manifest& m) {
  if (m.version != kManifestVersion)
    return refuse_manifest(fmt::format("version {}, expected {}", m.version, kManifestVersion));
  if (m.abi != kAbiVersion)
    return refuse_manifest(fmt::format("ABI version {}, expected {}", m.abi, kAbiVersion));
  if (m.workers == 0 || m.threads != kWorkerThreads)
    return refuse_manifest(fmt::format("{} workers of {} threads, expected 1 or more of {}", m.workers,
                                       m.threads, kWorkerThreads));
  if (m.workers > kMaxWorkers || m.shared_bytes > kMaxShared)
    return refuse_manifest(
        fmt::format("{} workers with {} bytes of shared memory, expected at most {} with {}", m.workers,
                    m.shared_bytes, kMaxWorkers, kMaxShared));
  if (m.vocab > INT32_MAX)
    return refuse_manifest(fmt::format("a vocabulary of {}, expected at most {}", m.vocab, INT32_MAX));
  if (Status status = check_names(m); !status.ok()) return status;
  if (m.symbols.size() > kMaxSymbols) return refuse_manifest(fmt::format("{} symbols", m.symbols.size()));
  for (const ManifestSymbol& s : m.symbols)
    if (s.lo < 0 || s.lo > s.hi || s.hi > INT32_MAX)
      return refuse_manifest(fmt::format("symbol {} from {} to {}, expected bounds within 0 to {}", s.name,
                                         s.lo, s.hi, INT32_MAX));
  if (m.inputs.size() > std::size(MkStep{}.input))
    return refuse_manifest(fmt::format("{} inputs", m.inputs.size()));
  for (const auto* tensors : {&m.inputs, &m.outputs, &m.tensors})
    for (const ManifestTensor& t : *tensors)
      if (Status status = check_tensor(t, m); !status.ok()) return status;
  for (const ManifestCache& c : m.caches)
    if (c.element == Element::kI32 || c.heads == 0 || c.heads > kMaxHeads || c.head_dim == 0 ||
        c.head_dim > kMaxHeads)
      return refuse_manifest(fmt::format("cache {} has {} heads of {} elements of {}", c.name, c.heads,
                                         c.head_dim, element_name(c.element)));
  for (const ManifestCache& c : m.caches)
    if (c.element != m.caches[0].element || c.heads != m.caches[0].heads ||
        c.head_dim != m.caches[0].head_dim)
      return refuse_manifest(fmt::format("cache {} is of another shape than {}", c.name, m.caches[0].name));
  for (const ManifestWeight& w : m.weights)
    if (Status status = check_weight(w, m); !status.ok()) return status;
  for (const ManifestRope& r : m.ropes) {
    const uint64_t row = r.inv_freq.size() * 2 * sizeof(float);
    if (row == 0 || r.positions > m.weight_bytes / row ||
        !inside(r.offset, r.positions * row, m.weight_bytes))
      return refuse_manifest(
          fmt::format("rope table of {} positions at {} lies outside its arena", r.positions, r.offset));
  }
  for (const ManifestGrid& g : m.grids)
    if (Status status = check_grid(g, m); !status.ok()) return status;
  if (Status status = check_counters(m); !status.ok()) return status;
  return check_launches(m);
}

}  // namespace mkrt
