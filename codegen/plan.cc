#include "codegen/plan.h"

#include <algorithm>

#include "codegen/describe.h"
#include "codegen/operands.h"
#include "ir/values.h"
#include "runtime/abi/packing.h"

namespace mkc {
namespace {

static_assert(kSlotAlignment % mkrt::kOperandUnit == 0, "MkGrid::operand holds offsets of slots");

// Returns the entry of MkGrid::operand for a tensor: the index of a cache, or the offset of another tensor in
// units of kOperandUnit.
uint32_t operand_word(const Schedule& s, TensorId tensor) {
  if (s.program.tensors[tensor].kind == TensorKind::kCache)
    return static_cast<uint32_t>(number_in_kind(s.program.tensors, tensor));
  const uint64_t unit = s.slots[tensor.index].offset / mkrt::kOperandUnit;
  MKC_ASSERT(unit < mkrt::kNoOperand, "a slot that no record can name");
  return static_cast<uint32_t>(unit);
}

mkrt::MkGrid grid_record(const Schedule& s, const Kinds& kinds, GridId id) {
  const TaskGrid& grid = s.program.grids[id];
  MKC_ASSERT(grid.waits.size() <= mkrt::kMaxWaits, "too many waits of " + grid.name);
  MKC_ASSERT(grid.notifies.size() <= mkrt::kMaxNotifies, "too many notifications of " + grid.name);
  mkrt::MkGrid record{};
  record.kind = kinds.of_grid[id.index];
  record.id = id.index;
  record.inline_grid = inline_grid_of(s, id).index;
  record.tickets = s.placements[id.index].tickets;
  for (size_t i = 0; i < grid.waits.size(); ++i)
    record.wait_base[i] = s.event_base[grid.waits[i].event.index];
  for (size_t i = 0; i < grid.notifies.size(); ++i)
    record.notify_base[i] = s.event_base[grid.notifies[i].event.index];
  std::fill_n(record.operand, mkrt::kMaxOperands, mkrt::kNoOperand);
  for (const auto* accesses : {&grid.reads, &grid.writes})
    for (const Access& access : *accesses)
      record.operand[operand_place(grid.body, access.role, accesses == &grid.writes)] =
          operand_word(s, access.tensor);
  if (multiplies(grid)) record.product = product_record(s, grid);
  return record;
}

mkrt::MkSegment segment_record(const Schedule& s, uint32_t worker, const Segment& segment, uint32_t inlined) {
  switch (s.placements[segment.grid.index].kind) {
    case PlacementKind::kTable:
      return {segment.grid.index, segment.first, segment.count, inlined};
    case PlacementKind::kRange:
      return {segment.grid.index, range_share(s, segment.grid, worker), mkrt::kRangeCount, inlined};
    default:
      return {segment.grid.index, 0, mkrt::kRangeCount, inlined};
  }
}

template <class T>
void append(std::vector<std::byte>& blob, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  blob.insert(blob.end(), bytes, bytes + sizeof(T));
}

mkrt::MkBounds bounds(const Schedule& s, const Kinds& kinds, Mode mode, const Engines& engines) {
  mkrt::MkBounds b{};
  const Symbols& symbols = s.program.symbols;
  const StepSymbols step = step_symbols(symbols);
  const auto max = [&](SymbolId id) { return id.valid() ? static_cast<uint32_t>(symbols[id].bounds.hi) : 0; };
  b.event_cells = s.event_cells;
  b.shared_bytes = shared_bytes(s, engines);
  b.ring_stages = s.ring.stages;
  b.kinds = static_cast<uint32_t>(kinds.first.size());
  b.max_tokens = max(step.tokens);
  b.max_requests = max(step.requests);
  b.context = max(step.kv_len);
  for (const Tensor& t : s.program.tensors) {
    const auto size = [&](size_t dim) { return static_cast<uint32_t>(t.shape[dim].constant()); };
    if (t.kind == TensorKind::kOutput && t.name == "logits") b.vocab = size(t.shape.size() - 1);
    if (t.kind != TensorKind::kCache) continue;
    ++b.caches;
    b.cache_heads = size(1);
    b.cache_head_dim = size(3);
    b.cache_element = static_cast<uint32_t>(element_of(t.dtype));
  }
  if (mode == Mode::kKernels) b.launches = static_cast<uint32_t>(launches_of(s).size());
  b.traced = mode == Mode::kTraced;
  b.weight_bytes = s.weight_bytes;
  b.workspace_bytes = s.workspace_bytes;
  return b;
}

}  // namespace

mkrt::MkProduct product_record(const Schedule& s, const TaskGrid& grid) {
  const Tensor& weight = operand_tensor(s.program, grid, "weight");
  const auto size = [](const Tensor& t, size_t from_last) {
    return static_cast<uint32_t>(t.shape[t.shape.size() - from_last].constant());
  };
  mkrt::MkProduct p{};
  p.rows = size(weight, 2);
  p.cols = size(weight, 1);
  const auto shape = mkrt::packed_shape(p.rows, p.cols, weight_type(weight));
  p.strips = static_cast<uint32_t>(shape.strips);
  p.tiles = shape.tiles;
  p.tail_cols = shape.tail_cols;
  p.gate = static_cast<uint32_t>(int_attr(grid.attrs, "gate", 0));
  p.eps = static_cast<float>(float_attr(grid.attrs, "eps", 0));
  if (find_operand(grid, "sum_squares"))
    p.sumsq_partials = size(operand_tensor(s.program, grid, "sum_squares"), 1);
  p.split_k = static_cast<uint32_t>(split_k(grid));
  if (grid.body == BodyKind::kSplitKPartial) return p;
  const Tensor& out = operand_tensor(s.program, grid, "out", true);
  p.out_cols = size(out, 1);
  p.out_bf16 = out.dtype == DType::bf16;
  p.gather_rows = static_cast<uint32_t>(int_attr(grid.attrs, "gather_rows", 0));
  return p;
}

std::vector<std::byte> make_plan(const Schedule& s, const Kinds& kinds, Mode mode, const Engines& engines) {
  mkrt::MkPlanHeader header{mkrt::kPlanMagic, s.program.grids.size(), s.workers, 0,
                            bounds(s, kinds, mode, engines)};
  for (const std::vector<Segment>& stream : s.streams)
    header.segments += static_cast<uint32_t>(stream.size());
  const auto align = [](std::vector<std::byte>& blob) { blob.resize((blob.size() + 15) / 16 * 16); };

  std::vector<std::byte> blob;
  append(blob, header);
  std::vector<uint32_t> inlined;  // by GridId
  for (GridId id : s.program.grids.ids()) {
    const mkrt::MkGrid record = grid_record(s, kinds, id);
    inlined.push_back(record.inline_grid);
    append(blob, record);
  }
  align(blob);
  uint32_t begin = 0;
  append(blob, begin);
  for (const std::vector<Segment>& stream : s.streams)
    append(blob, begin += static_cast<uint32_t>(stream.size()));
  align(blob);
  for (uint32_t w = 0; w < s.workers; ++w)
    for (const Segment& segment : s.streams[w])
      append(blob, segment_record(s, w, segment, inlined[segment.grid.index]));
  return blob;
}

}  // namespace mkc
