#include "codegen/describe.h"

#include <algorithm>
#include <cstring>

#include "codegen/device/worker.h"
#include "codegen/kinds.h"
#include "codegen/operands.h"
#include "codegen/plan.h"
#include "codegen/processor_memory.h"
#include "ir/values.h"

namespace mkc {
namespace {

mkrt::GridPlacement placement_of(PlacementKind kind) {
  switch (kind) {
    case PlacementKind::kTable:
      return mkrt::GridPlacement::kTable;
    case PlacementKind::kRange:
      return mkrt::GridPlacement::kRange;
    case PlacementKind::kInline:
      return mkrt::GridPlacement::kInline;
    case PlacementKind::kQueue:
      return mkrt::GridPlacement::kQueue;
    case PlacementKind::kReady:
      return mkrt::GridPlacement::kReady;
  }
  MKC_BUG("unknown placement");
}

// Describer fills a manifest from a schedule.
struct Describer {
  const Schedule& schedule;
  mkrt::Manifest& manifest;
  std::vector<int64_t> limits;  // upper bound of each symbol

  const TaskProgram& program() const { return schedule.program; }

  std::vector<uint64_t> max(const std::vector<Expr>& shape) const {
    std::vector<uint64_t> sizes;
    for (const Expr& size : shape) sizes.push_back(static_cast<uint64_t>(evaluate(size, limits)));
    return sizes;
  }

  mkrt::ManifestTensor place(TensorId id, mkrt::Arena arena) const {
    const Tensor& t = program().tensors[id];
    const Slot& slot = schedule.slots[id.index];
    return {t.name, arena, element_of(t.dtype), slot.offset, slot.bytes, max(t.shape)};
  }

  mkrt::ManifestWeight weight(TensorId id) const {
    const Tensor& t = program().tensors[id];
    const Slot& slot = schedule.slots[id.index];
    std::vector<uint64_t> shape = max(t.shape);
    mkrt::ManifestWeight w;
    const bool vector = !is_matrix(t);
    if (shape.size() == (vector ? 2 : 3)) {
      w.stack = shape[0];
      shape.erase(shape.begin());
    }
    w.name = t.name;
    w.offset = slot.offset;
    w.bytes = slot.bytes;
    w.layout = vector ? mkrt::WeightLayout::kVector : mkrt::WeightLayout::kPacked;
    w.element = element_of(t.dtype);
    w.rows = vector ? 1 : shape[0];
    w.cols = shape.back();
    w.group = static_cast<uint64_t>(t.packing.group);
    for (uint64_t i = 0; i < w.stack; ++i) {
      for (TensorId source : t.packing.sources)
        w.sources.push_back(source_name(program().tensors[source], static_cast<int64_t>(i)));
      if (vector) w.sources.push_back(source_name(t, static_cast<int64_t>(i)));
    }
    return w;
  }

  void add_tensor(TensorId id) {
    switch (program().tensors[id].kind) {
      case TensorKind::kInput:
        manifest.inputs.push_back(place(id, mkrt::Arena::kInput));
        break;
      case TensorKind::kWeight:
        break;  // describe_weights()
      case TensorKind::kActivation:
        manifest.tensors.push_back(place(id, mkrt::Arena::kWorkspace));
        break;
      case TensorKind::kCache: {
        const Tensor& t = program().tensors[id];
        const std::vector<uint64_t> shape = max(t.shape);
        manifest.caches.push_back({t.name, element_of(t.dtype), shape[1], shape[3], t.source});
        break;
      }
      case TensorKind::kOutput:
        manifest.outputs.push_back(place(id, mkrt::Arena::kWorkspace));
        break;
      case TensorKind::kTable:
        break;  // add_ropes() adds tables, with their frequencies
    }
  }

  void add_ropes() {
    for (const RopeTable& rope : program().ropes) {
      const std::vector<uint64_t> shape = max(program().tensors[rope.tensor].shape);
      manifest.ropes.push_back({program().tensors[rope.tensor].name, schedule.slots[rope.tensor.index].offset,
                                shape[0], rope.inv_freq, rope.scale});
    }
  }

  void add_events() {
    for (EventId id : program().events.ids()) {
      const std::string& name = program().events[id].name;
      const uint32_t first = schedule.event_base[id.index], cells = max_cells(program(), id);
      manifest.events.push_back({name, first, cells});
      if (keeps_log(schedule, id)) manifest.events.push_back({name + ".log", first + cells, 1 + cells});
    }
  }

  mkrt::ManifestGrid grid(GridId id, const Kinds& kinds) const {
    const TaskGrid& g = program().grids[id];
    const Placement& placement = schedule.placements[id.index];
    mkrt::ManifestGrid out;
    out.name = g.name;
    out.kind = kinds.of_grid[id.index];
    out.placement = placement_of(placement.kind);
    out.tickets = placement.tickets;
    out.inline_grid = static_cast<int32_t>(inline_grid_of(schedule, id).index);
    for (const Wait& wait : g.waits) out.waits.push_back(program().events[wait.event].name);
    for (const Notify& notify : g.notifies) out.notifies.push_back(program().events[notify.event].name);
    for (const auto* accesses : {&g.reads, &g.writes})
      for (const Access& access : *accesses) {
        const size_t place = operand_place(g.body, access.role, accesses == &g.writes);
        if (out.operands.size() <= place) out.operands.resize(place + 1);
        out.operands[place] = program().tensors[access.tensor].name;
      }
    if (!multiplies(g)) return out;
    const mkrt::MkProduct record = product_record(schedule, g);
    out.product.resize(sizeof(record) / sizeof(uint32_t));
    std::memcpy(out.product.data(), &record, sizeof(record));
    return out;
  }

  void add_grids(Mode mode) {
    const Kinds kinds = find_kinds(schedule, mode);
    for (GridId id : program().grids.ids()) manifest.grids.push_back(grid(id, kinds));
    for (const std::vector<Segment>& stream : schedule.streams)
      for (const Segment& s : stream)
        if (schedule.placements[s.grid.index].kind == PlacementKind::kTable)
          manifest.grids[s.grid.index].tasks += s.count;
  }
};

}  // namespace

mkrt::Element element_of(DType dtype) {
  const auto type = find_weight_type(dtype);
  return type ? static_cast<mkrt::Element>(*type) : mkrt::Element::kI32;
}

uint32_t shared_bytes(const Schedule& schedule, const Engines& engines) {
  if (!engines.loader) return processor_bytes(schedule);
  constexpr uint32_t kBeside = mk::kBarrierBytes + mk::kListBytes + mk::kScratchBytes;
  static_assert(kBeside <= kBesideRingBytes, "machine descriptions leave too little room beside the ring");
  return schedule.ring.stages * schedule.ring.stage_bytes + kBeside;
}

std::vector<mkrt::ManifestWeight> describe_weights(const Schedule& schedule) {
  mkrt::Manifest m;
  const Describer d{schedule, m, upper_bounds(schedule.program.symbols)};
  std::vector<mkrt::ManifestWeight> weights;
  for (TensorId id : schedule.program.tensors.ids())
    if (schedule.program.tensors[id].kind == TensorKind::kWeight && schedule.slots[id.index].bytes != 0)
      weights.push_back(d.weight(id));
  return weights;
}

mkrt::Manifest describe(const Schedule& schedule, const ModelIdentity& identity) {
  mkrt::Manifest m;
  m.abi = mkrt::kAbiVersion;
  m.mkc_version = identity.mkc_version;
  m.model = identity.family;
  m.config_hash = identity.config_hash;
  m.schedule_hash = identity.schedule_hash;
  m.target = identity.target;
  m.without = identity.without;
  m.eos_ids = identity.eos_ids;
  m.bos_id = identity.bos_id;
  m.copies = identity.copies;
  m.workers = schedule.workers;
  m.threads = mkrt::kWorkerThreads;
  m.shared_bytes = shared_bytes(schedule, identity.engines);
  m.ring_stages = schedule.ring.stages;
  m.event_cells = schedule.event_cells;
  m.weight_bytes = schedule.weight_bytes;
  m.workspace_bytes = schedule.workspace_bytes;

  m.weights = describe_weights(schedule);
  Describer d{schedule, m, upper_bounds(schedule.program.symbols)};
  for (const Symbol& s : schedule.program.symbols)
    if (!s.routed && !s.cut) m.symbols.push_back({s.name, s.bounds.lo, s.bounds.hi, s.is_list()});
  for (TensorId id : schedule.program.tensors.ids()) d.add_tensor(id);
  d.add_ropes();
  d.add_events();
  d.add_grids(identity.mode);
  m.traced = identity.mode == Mode::kTraced;
  if (identity.mode == Mode::kKernels)
    for (GridId id : launches_of(schedule)) m.launches.push_back(id.index);
  const auto logits = std::find_if(m.outputs.begin(), m.outputs.end(),
                                   [](const mkrt::ManifestTensor& t) { return t.name == "logits"; });
  MKC_ASSERT(logits != m.outputs.end(), "the step has no output named logits");
  m.vocab = logits->shape.back();
  return m;
}

}  // namespace mkc
