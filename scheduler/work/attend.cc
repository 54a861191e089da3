#include "ir/ceil.h"
#include "ir/values.h"
#include "scheduler/machine/control_path.h"
#include "scheduler/work/processor.h"

namespace mkc {
namespace {

constexpr int64_t kMergedRows = 8;      // query rows that the warps of an attend task merge at a time
constexpr int64_t kMergedColumns = 64;  // columns that they merge at a time

// Returns bytes of keys and values. With `earlier` they were in the cache before the step. Otherwise tasks of
// the step write them, this task included.
double cache_bytes(const TaskOn& t, bool earlier) {
  double bytes = 0;
  for (const std::vector<Access>* accesses : {&t.grid.reads, &t.grid.writes})
    for (const Access& access : *accesses) {
      const Tensor& tensor = t.tensor(access);
      if (tensor.kind == TensorKind::kCache && access.stream == earlier)
        bytes += static_cast<double>(t.elements(access.region) * dtype_bytes(tensor.dtype));
    }
  return bytes;
}

// Tells whether the task belongs to a request's last row block. The last blocks are as many as the requests
// and follow all other blocks.
bool brings_context(const TaskOn& t) {
  if (!t.symbols.blocks) return true;
  const Expr& requests = t.program.symbols[t.symbols.q_len].length;
  return t.coords[1] >= evaluate(t.grid.coords[1].extent - requests, t.step.symbols);
}

// Keys and values of earlier positions come through the ring. A request's last row block gets them from
// memory. Its other blocks, and all passes after the first, get them from L2. Keys and values of the step
// come from L2, as each column of a stage is taken. A decode's own are in shared memory.
TaskWork attend_work(const TaskOn& t, uint32_t) {
  const TaskGrid& g = t.grid;
  const Access* q = find_operand(g, "q");
  MKC_ASSERT(q != nullptr, "attend " + g.name + " lacks its queries");
  const int64_t tokens = t.value(q->region[0].size);
  const int64_t rows = tokens * int_attr(g.attrs, "heads", 1) / int_attr(g.attrs, "kv_heads", 1);
  const int64_t columns = ceil_of(int_attr(g.attrs, "head_dim", 1), kMergedColumns);
  const Tensor& keys = t.tensor(*find_operand(g, "k_cache"));
  const bool f32 = keys.dtype == DType::f32;
  const double stepped = cache_bytes(t, false);
  const auto earlier = static_cast<uint64_t>(cache_bytes(t, true));
  const int64_t kv_tile_bytes = 2 * kKvTilePositions * keys.shape.back().constant() * dtype_bytes(keys.dtype);
  const int64_t kv_tiles = std::max<int64_t>(
      1, ceil_of(static_cast<int64_t>(earlier) + static_cast<int64_t>(stepped), kv_tile_bytes));
  const int64_t query_tiles = ceil_of(rows, f32 ? kMergedRows : 2 * kMergedRows);
  const int64_t sums = kv_tiles * (query_tiles + ceil_of(rows, kMergedRows) * columns);

  TaskWork work;
  work.tiles = static_cast<uint32_t>((earlier + mkrt::kStageBytes - 1) / mkrt::kStageBytes);
  work.passes = static_cast<uint32_t>(query_tiles);
  work.cold = brings_context(t);
  if (work.tiles > 0)
    work.tail_bytes = static_cast<uint32_t>(earlier - uint64_t{work.tiles - 1} * mkrt::kStageBytes);
  work.needed_bytes = work.cold ? earlier : 0;
  if (t.m.is_processor()) {
    // A row sees on average half of the block's other positions.
    const double unseen =
        static_cast<double>(tokens - 1) / 2 * static_cast<double>(kv_tile_bytes) / kKvTilePositions;
    attend_on_processor(work, t, rows, kv_tiles, static_cast<double>(earlier), stepped - unseen);
    return work;
  }
  work.byte_ns = 1 / t.m.attend_bytes_per_ns;
  work.issue_ns = cache_issue_ns(t.m, mkrt::kStageBytes);
  work.start_ns = t.m.fetch_ns;
  work.busy_ns = t.activation_bytes() / t.l2_rate();
  const bool kept = !f32 && tokens == 1 && static_cast<int64_t>(stepped) <= kv_tile_bytes / kKvTilePositions;
  if (stepped > 0)
    work.busy_ns +=
        static_cast<double>(query_tiles) *
        ((kept ? 0 : static_cast<double>(2 * columns) * t.m.poll_ns) + stepped / t.m.attend_bytes_per_ns);
  work.end_ns = static_cast<double>(sums) * t.m.reduce_ns + t.m.task_ns + t.m.barrier_ns;
  return work;
}

}  // namespace

const BodyWork kAttendWork = {.work = attend_work, .stages_before = attention_stages};

}  // namespace mkc
