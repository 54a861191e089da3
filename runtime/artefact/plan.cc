#include "runtime/artefact/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "runtime/abi/packing.h"
#include "runtime/abi/symbols.h"

namespace mkrt {
namespace {

using Places = std::unordered_map<std::string_view, uint64_t>;

// Returns an operand's offset in units of kOperandUnit, or kNoOperand where a record cannot express it.
uint64_t unit_of(uint64_t offset) {
  const bool named = offset % kOperandUnit == 0 && offset / kOperandUnit < kNoOperand;
  return named ? offset / kOperandUnit : kNoOperand;
}

// Returns the entry of MkGrid::operand for each name.
Places operand_places(const Manifest& m) {
  Places places;
  for (const auto* tensors : {&m.inputs, &m.outputs, &m.tensors})
    for (const ManifestTensor& t : *tensors) places.emplace(t.name, unit_of(t.offset));
  for (const ManifestWeight& w : m.weights) places.emplace(w.name, unit_of(w.offset));
  for (const ManifestRope& r : m.ropes) places.emplace(r.name, unit_of(r.offset));
  for (size_t i = 0; i < m.caches.size(); ++i) places.emplace(m.caches[i].name, i);
  return places;
}

Places event_places(const Manifest& m) {
  Places places;
  for (const ManifestEvent& e : m.events) places.emplace(e.name, e.first_cell);
  return places;
}

Error refuse_plan(const std::string& message) {
  return {"plan: error: " + message};
}

// Fills `to` with the values of the names; the element of an empty name stays.
template <class T, size_t N>
Status look_up(const ManifestGrid& g, const char* what, const std::vector<std::string>& names,
               const Places& places, T (&to)[N]) {
  if (names.size() > N)
    return refuse_plan(fmt::format("grid {} has {} {}s, expected at most {}", g.name, names.size(), what, N));
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    const auto found = places.find(names[i]);
    if (found == places.end())
      return refuse_plan(fmt::format("grid {}: {} {} is not in the manifest", g.name, what, names[i]));
    if (found->second >= kNoOperand)
      return refuse_plan(fmt::format("grid {}: {} {} begins at no multiple of {} bytes below {}", g.name,
                                     what, names[i], kOperandUnit, kNoOperand * kOperandUnit));
    to[i] = static_cast<T>(found->second);
  }
  return {};
}

struct Number {
  const char* name;
  uint64_t found, expected;
};

// Returns an error such as "grid l0.q: kind is 3, expected 2" for the first number that differs.
Status compare(const std::string& record, std::initializer_list<Number> numbers) {
  for (const Number& n : numbers)
    if (n.found != n.expected)
      return refuse_plan(fmt::format("{}: {} is {}, expected {}", record, n.name, n.found, n.expected));
  return {};
}

template <class T, size_t N>
Status compare_all(const std::string& record, const char* what, const T (&found)[N], const T (&expected)[N]) {
  for (size_t i = 0; i < N; ++i)
    if (found[i] != expected[i])
      return refuse_plan(fmt::format("{}: {} {} is {}, expected {}", record, what, i, found[i], expected[i]));
  return {};
}

Status compare_bounds(const MkBounds& found, const MkBounds& expected) {
  if (Status status =
          compare("header", {{"event_cells", found.event_cells, expected.event_cells},
                             {"shared_bytes", found.shared_bytes, expected.shared_bytes},
                             {"ring_stages", found.ring_stages, expected.ring_stages},
                             {"kinds", found.kinds, expected.kinds},
                             {"max_tokens", found.max_tokens, expected.max_tokens},
                             {"max_requests", found.max_requests, expected.max_requests},
                             {"context", found.context, expected.context},
                             {"vocab", found.vocab, expected.vocab},
                             {"caches", found.caches, expected.caches},
                             {"cache_heads", found.cache_heads, expected.cache_heads},
                             {"cache_head_dim", found.cache_head_dim, expected.cache_head_dim},
                             {"cache_element", found.cache_element, expected.cache_element},
                             {"launches", found.launches, expected.launches},
                             {"traced", found.traced, expected.traced},
                             {"weight_bytes", found.weight_bytes, expected.weight_bytes},
                             {"workspace_bytes", found.workspace_bytes, expected.workspace_bytes}});
      !status.ok())
    return status;
  return compare_all("header", "reserved", found.reserved, expected.reserved);
}

Status compare_record(const std::string& name, const MkGrid& found, const MkGrid& expected) {
  const std::string record = "grid " + name;
  if (Status status = compare(record, {{"kind", found.kind, expected.kind},
                                       {"id", found.id, expected.id},
                                       {"inline_grid", found.inline_grid, expected.inline_grid},
                                       {"tickets", found.tickets, expected.tickets}});
      !status.ok())
    return status;
  if (Status s = compare_all(record, "wait", found.wait_base, expected.wait_base); !s.ok()) return s;
  if (Status s = compare_all(record, "notify", found.notify_base, expected.notify_base); !s.ok()) return s;
  if (Status s = compare_all(record, "operand", found.operand, expected.operand); !s.ok()) return s;
  uint32_t words[sizeof(MkProduct) / sizeof(uint32_t)], wanted[std::size(words)];
  std::memcpy(words, &found.product, sizeof(words));
  std::memcpy(wanted, &expected.product, sizeof(wanted));
  return compare_all(record, "product word", words, wanted);
}

// Segments collects which of each grid's tasks the segments hold.
class Segments {
 public:
  explicit Segments(const Manifest& manifest) : m_(manifest), of_grid_(manifest.grids.size()) {}

  Status add(uint32_t number, const MkSegment& s) {
    if (s.grid >= m_.grids.size())
      return refuse_plan(fmt::format("segment {} names grid {} of {}", number, s.grid, m_.grids.size()));
    const ManifestGrid& g = m_.grids[s.grid];
    if (const auto inlined = static_cast<uint32_t>(g.inline_grid); s.inline_grid != inlined)
      return refuse_plan(
          fmt::format("segment {}: inline_grid is {}, expected {}", number, s.inline_grid, inlined));
    const bool table = g.placement == GridPlacement::kTable, range = g.placement == GridPlacement::kRange;
    const bool fits = table   ? s.count != 0 && s.count <= g.tasks && s.first <= g.tasks - s.count
                      : range ? s.count == kRangeCount && s.first < m_.workers
                              : s.count == kRangeCount && s.first == 0;
    if (!fits || g.placement == GridPlacement::kInline)
      return refuse_plan(
          fmt::format("segment {} of grid {} is {}+{}, which it has not", number, g.name, s.first, s.count));
    of_grid_[s.grid].emplace_back(s.first, table ? s.count : 1);
    return {};
  }

  // Checks that segments hold each task of a table, and each share of a range, once. A claimed grid must be
  // in a stream.
  Status check_whole() {
    for (size_t i = 0; i < of_grid_.size(); ++i) {
      const ManifestGrid& g = m_.grids[i];
      if (g.placement == GridPlacement::kInline) continue;
      if (g.placement == GridPlacement::kQueue || g.placement == GridPlacement::kReady) {
        if (of_grid_[i].empty()) return refuse_plan(fmt::format("grid {} is in no stream", g.name));
        continue;
      }
      const uint64_t max = g.placement == GridPlacement::kTable ? g.tasks : m_.workers;
      std::ranges::sort(of_grid_[i]);
      uint64_t next = 0;
      for (const auto& [first, count] : of_grid_[i]) {
        if (first != next) break;
        next += count;
      }
      if (next != max || count_of(i) != max)
        return refuse_plan(fmt::format(
            "grid {}: the segments hold task or share {} of {} twice or not at all", g.name, next, max));
    }
    return {};
  }

 private:
  uint64_t count_of(size_t grid) const {
    uint64_t sum = 0;
    for (const auto& [first, count] : of_grid_[grid]) sum += count;
    return sum;
  }

  const Manifest& m_;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> of_grid_;
};

template <class T>
T plan_value(std::span<const std::byte> plan, uint64_t offset) {
  T value;
  std::memcpy(&value, plan.data() + offset, sizeof(T));
  return value;
}

Status check_streams(const Manifest& m, const MkPlanHeader& header, std::span<const std::byte> plan) {
  const PlanLayout layout = plan_layout(header);
  const auto begin_of = [&](uint32_t w) {
    return plan_value<uint32_t>(plan, layout.stream_begin + w * sizeof(uint32_t));
  };
  uint32_t before = 0;
  for (uint32_t w = 0; w <= header.workers; ++w) {
    const uint32_t begin = begin_of(w);
    const bool end = w == header.workers;
    if (begin < before || begin > header.segments || (w == 0 && begin != 0) ||
        (end && begin != header.segments))
      return refuse_plan(fmt::format("stream {} begins at segment {} of {}", w, begin, header.segments));
    before = begin;
  }
  Segments segments(m);
  for (uint32_t i = 0; i < header.segments; ++i)
    if (Status s =
            segments.add(i, plan_value<MkSegment>(plan, layout.segments + uint64_t{i} * sizeof(MkSegment)));
        !s.ok())
      return s;
  return segments.check_whole();
}

// Checks the bytes between the plan's parts.
Status check_padding(const MkPlanHeader& header, std::span<const std::byte> plan) {
  const PlanLayout layout = plan_layout(header);
  const uint64_t end = layout.stream_begin + (uint64_t{header.workers} + 1) * sizeof(uint32_t);
  const uint64_t records = layout.grids + uint64_t{header.grids} * sizeof(MkGrid);
  for (const auto& [from, to] : {std::pair{records, layout.stream_begin}, std::pair{end, layout.segments}})
    for (uint64_t at = from; at < to; ++at)
      if (plan[at] != std::byte{0}) return refuse_plan(fmt::format("byte {} between its parts is not 0", at));
  return {};
}

}  // namespace

MkBounds bounds_of(const Manifest& m) {
  MkBounds b{};
  b.event_cells = m.event_cells;
  b.shared_bytes = m.shared_bytes;
  b.ring_stages = m.ring_stages;
  for (const ManifestGrid& g : m.grids) b.kinds = std::max(b.kinds, g.kind + 1);
  for (const ManifestSymbol& s : m.symbols) {
    const auto max = static_cast<uint32_t>(s.hi);
    if (s.name == kTokensSymbol) b.max_tokens = max;
    if (s.name == kRequestsSymbol) b.max_requests = max;
    if (s.name == kKvLenSymbol) b.context = max;
  }
  b.vocab = static_cast<uint32_t>(m.vocab);
  b.caches = static_cast<uint32_t>(m.caches.size());
  if (!m.caches.empty()) {
    b.cache_heads = static_cast<uint32_t>(m.caches[0].heads);
    b.cache_head_dim = static_cast<uint32_t>(m.caches[0].head_dim);
    b.cache_element = static_cast<uint32_t>(m.caches[0].element);
  }
  b.launches = static_cast<uint32_t>(m.launches.size());
  b.traced = m.traced;
  b.weight_bytes = m.weight_bytes;
  b.workspace_bytes = m.workspace_bytes;
  return b;
}

Result<std::vector<MkGrid>> records_of(const Manifest& m) {
  const Places operands = operand_places(m), events = event_places(m);
  std::vector<MkGrid> records;
  for (const ManifestGrid& g : m.grids) {
    MkGrid record{};
    record.kind = g.kind;
    record.id = static_cast<uint32_t>(records.size());
    record.inline_grid = static_cast<uint32_t>(g.inline_grid);
    record.tickets = g.tickets;
    std::fill_n(record.operand, kMaxOperands, kNoOperand);
    if (Status s = look_up(g, "wait", g.waits, events, record.wait_base); !s.ok()) return s.error();
    if (Status s = look_up(g, "notify", g.notifies, events, record.notify_base); !s.ok()) return s.error();
    if (Status s = look_up(g, "operand", g.operands, operands, record.operand); !s.ok()) return s.error();
    if (!g.product.empty() && g.product.size() * sizeof(uint32_t) != sizeof(MkProduct))
      return refuse_plan(fmt::format("grid {} has a product of {} words", g.name, g.product.size()));
    if (!g.product.empty()) std::memcpy(&record.product, g.product.data(), sizeof(record.product));
    records.push_back(record);
  }
  return records;
}

Status check_plan(const Manifest& m, std::span<const std::byte> plan) {
  MkPlanHeader header{};
  if (plan.size() >= sizeof(header)) header = plan_value<MkPlanHeader>(plan, 0);
  if (header.magic != kPlanMagic) return refuse_plan("does not begin with a plan's header");
  if (header.grids != m.grids.size() || header.workers != m.workers)
    return refuse_plan(fmt::format("of {} grids and {} workers, expected {} and {}", header.grids,
                                   header.workers, m.grids.size(), m.workers));
  const PlanLayout layout = plan_layout(header);
  if (plan.size() != layout.bytes)
    return refuse_plan(fmt::format("has {} bytes, expected {}", plan.size(), layout.bytes));
  if (Status status = compare_bounds(header.bounds, bounds_of(m)); !status.ok()) return status;
  const Result<std::vector<MkGrid>> records = records_of(m);
  if (!records.ok()) return records.error();
  for (uint32_t i = 0; i < header.grids; ++i)
    if (Status status = compare_record(m.grids[i].name,
                                       plan_value<MkGrid>(plan, layout.grids + uint64_t{i} * sizeof(MkGrid)),
                                       records.value()[i]);
        !status.ok())
      return status;
  if (Status status = check_padding(header, plan); !status.ok()) return status;
  return check_streams(m, header, plan);
}

std::vector<uint32_t> launch_kinds(const Manifest& manifest) {
  std::vector<uint32_t> kinds;
  for (const uint32_t grid : manifest.launches) kinds.push_back(manifest.grids[grid].kind);
  return kinds;
}

}  // namespace mkrt
