#include "scheduler/simulate/simulate_work.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "runtime/abi/abi.h"
#include "scheduler/machine/ceil.h"
#include "scheduler/machine/control_path.h"

namespace mkc {
namespace {

constexpr int64_t kMergedRows = 8;      // query rows that the warps of an attend task merge at a time
constexpr int64_t kMergedColumns = 64;  // columns that they merge at a time

int64_t region_elements(const Step& step, const Region& region, std::span<const int64_t> coords) {
  int64_t elements = 1;
  for (const Range& range : region)
    elements *= std::max<int64_t>(0, evaluate(range.size, step.symbols, coords));
  return elements;
}

// Returns the elements of an operand that a task reads. An expert_sum task reads only the rows of the experts
// that its token chose.
int64_t elements_read(const Step& step, const TaskGrid& grid, const Access& read,
                      std::span<const int64_t> coords) {
  const int64_t elements = region_elements(step, read.region, coords);
  if (grid.body != BodyKind::kExpertSum || read.role != "x") return elements;
  const int64_t choices = region_elements(step, find_operand(grid, "share")->region, coords);
  return elements / evaluate(read.region[0].size, step.symbols) * choices;
}

// Returns the rows that a product makes, or the rows of the expert that a task belongs to.
int64_t tokens_of(const Step& step, const TaskGrid& grid, std::span<const int64_t> coords = {}) {
  const Region& made = grid.writes[0].region;
  return evaluate(made[grid.body == BodyKind::kSplitKPartial ? 2 : 0].size, step.symbols, coords);
}

// Returns the bytes of the task's reads from tensors of the wanted kinds.
template <class Wanted>
double read_bytes(const Step& step, uint32_t task, Wanted wanted) {
  const TaskProgram& program = step.schedule->program;
  std::vector<int64_t> coords;
  task_coords(step, task, coords);
  double bytes = 0;
  const TaskGrid& grid = program.grids[step.grid_of[task]];
  for (const Access& read : grid.reads) {
    const Tensor& tensor = program.tensors[read.tensor];
    if (wanted(tensor.kind))
      bytes += static_cast<double>(elements_read(step, grid, read, coords) * dtype_bytes(tensor.dtype));
  }
  return bytes;
}

// Returns bytes of keys and values. With `earlier` they were in the cache before the step. Otherwise tasks of
// the step write them, this task included.
double cache_bytes(const Step& step, uint32_t task, bool earlier) {
  const TaskProgram& program = step.schedule->program;
  std::vector<int64_t> coords;
  task_coords(step, task, coords);
  double bytes = 0;
  const TaskGrid& grid = program.grids[step.grid_of[task]];
  for (const std::vector<Access>* accesses : {&grid.reads, &grid.writes})
    for (const Access& access : *accesses) {
      const Tensor& tensor = program.tensors[access.tensor];
      if (tensor.kind == TensorKind::kCache && access.stream == earlier)
        bytes +=
            static_cast<double>(region_elements(step, access.region, coords) * dtype_bytes(tensor.dtype));
    }
  return bytes;
}

bool is_computed(TensorKind kind) {
  return kind == TensorKind::kActivation || kind == TensorKind::kOutput;
}

// How a product is multiplied: the tokens of a pass, the rate at which weights are multiplied, and the rows
// of activations that a pass of a block loads. activations_ns is the time of these loads in addition. One
// load serves `strips` strips with x_bytes of each.
struct Variant {
  int64_t group;
  double bytes_per_ns, x_rows, activations_ns;
  uint32_t strips, x_bytes = mkrt::kStageBytes;
  double min_ns = 0;      // least time of a tile of all strips: the time of its loads
  double barrier_ns = 0;  // barriers of a tile of all strips
  uint32_t finishes = 1;  // finishes of a pass, one after the other
};

// Tokens times strips whose finishes take reduce_ns. Estimate: about 40 instructions for each of their rows.
constexpr int64_t kEpilogueElements = 128;

// Many tokens are multiplied with 16 tokens per warp. Each group of warps that have the same tokens
// multiplies a block's part of a tile and reads it from shared memory. Activations are written to shared
// memory once, and each warp of a group reads them. The copies use the bandwidth of shared memory, too.
Variant mma64(const Machine& m, int64_t tokens, uint32_t strips) {
  constexpr uint32_t warps = mkrt::kConsumerWarps, part = mkrt::kStageBytes / mkrt::kKSlices;
  const int64_t pass = std::min<int64_t>(tokens, mkrt::kMma64Tokens);
  const uint32_t groups = mkrt::warp_groups(static_cast<uint32_t>(pass)),
                 sides = std::min(warps / groups, strips);
  const double x_bytes = static_cast<double>(pass * part / kTileRows);
  const double shared_bytes = strips * part * (groups + 1.0) + x_bytes * (sides + 1.0);
  const double shared_ns = shared_bytes / m.shared_bytes_per_ns;
  const double mma_ns =
      strips * part / 2 * groups * double{mkrt::kWarpTokens} / (m.mma_per_ns * groups * sides / warps);
  Variant v{mkrt::kMma64Tokens,
            strips * part / std::max(shared_ns, mma_ns),
            static_cast<double>(pass),
            m.activations_ns,
            strips,
            part};
  v.min_ns = m.l2_ns;
  v.barrier_ns = m.barrier_ns;
  v.finishes = static_cast<uint32_t>(ceil_of(strips * pass, kEpilogueElements));
  return v;
}

// One or two of a tile's four loads of activations are in flight with this number of tokens.
Variant mma32(const Machine& m, int64_t tokens, uint32_t strips) {
  const bool half = tokens <= mkrt::kMma32Tokens / 2;
  const auto rows = static_cast<double>(ceil_of(tokens, mkrt::kMma8Tokens) * mkrt::kMma8Tokens);
  const double rate = half ? m.mma16_bytes_per_ns : 2 * m.mma_per_ns / mkrt::kMma32Tokens;
  Variant v{mkrt::kMma32Tokens, rate, rows, m.activations_ns, strips};
  v.min_ns = (half ? 2 : 4) * m.l2_ns;
  v.finishes = strips;
  return v;
}

// Warpgroups multiply. The consumers load activations once for the strips of a block.
Variant wgmma128(const Machine& m, int64_t tokens, uint32_t strips) {
  const double rows = static_cast<double>(std::min<int64_t>(tokens, mkrt::kWgmmaTokens));
  return {mkrt::kWgmmaTokens,
          m.wgmma_bytes_per_ns,
          rows,
          m.activations_ns,
          strips,
          mkrt::kStageBytes / mkrt::kKSlices};
}

// Warps take turns at as many strips as there are parts, where a part of a split product has few tokens. Each
// warp loads its K slice's activations. Warps without a strip rest.
void take_sides(Variant& variant, uint32_t parts, uint32_t strips) {
  const uint32_t stages = (strips + parts - 1) / parts;
  variant.bytes_per_ns *= static_cast<double>(strips) / (stages * parts);
  variant.x_rows *= parts;
  variant.activations_ns *= parts;
}

// Rates and sizes of a variant are those of operands. Less is stored of a format that is unpacked. The time
// of the unpacking itself is not known.
void to_stored_bytes(Variant& variant, const mkrt::WeightFormat& format) {
  variant.bytes_per_ns *= static_cast<double>(format.bits) / format.operand_bits;
  variant.x_bytes = format.bytes_of(variant.x_bytes);
}

Variant variant_of(const Machine& m, const TaskProgram& program, const TaskGrid& grid, int64_t tokens,
                   mkrt::WeightType type, uint32_t strips) {
  const bool warpgroups = m.warpgroups && grid.body != BodyKind::kExpert && split_k(grid) == 1;
  const mkrt::ProductVariant variant = mkrt::product_variant(
      static_cast<uint32_t>(tokens), type, grid.body == BodyKind::kExpert ? mkrt::kExpert : strips,
      warpgroups ? wgmma_from(program, grid) : 0);
  const double rows = static_cast<double>(std::min<int64_t>(tokens, mkrt::kFmaTokens));
  switch (variant) {
    case mkrt::ProductVariant::kFma:
      if (tokens > 1) return {mkrt::kFmaTokens, m.fma16_bytes_per_ns, rows, 0, strips};
      [[fallthrough]];
    case mkrt::ProductVariant::kMma8:
      return {mkrt::kMma8Tokens, m.mma8_bytes_per_ns, rows, m.activations_ns, strips};
    case mkrt::ProductVariant::kMma32:
      return mma32(m, tokens, strips);
    case mkrt::ProductVariant::kMma64:
      return mma64(m, tokens, strips);
    case mkrt::ProductVariant::kWgmma128:
      return wgmma128(m, tokens, strips);
  }
  MKC_BUG("a product of no variant");
}

// Returns the bytes of sums that a task of a part leaves.
double sums_bytes(const TaskGrid& partial, int64_t tokens) {
  return static_cast<double>(kKSlices / split_k(partial) * kTileRows * tokens * dtype_bytes(DType::f32));
}

// Returns the number of bodies that more than one grid has. Layers come back to these bodies.
uint32_t looped_bodies(const TaskProgram& program) {
  std::map<BodyKind, uint32_t> grids;
  for (const TaskGrid& grid : program.grids) ++grids[grid.body];
  return static_cast<uint32_t>(
      std::ranges::count_if(grids, [](const auto& body) { return body.second > 1; }));
}

}  // namespace

FusedStages fused_stages(const TaskGrid& grid) {
  const auto has = [&](const char* role) { return find_operand(grid, role) != nullptr; };
  FusedStages r;
  if (grid.body == BodyKind::kAttend || grid.body == BodyKind::kAppend)
    r.before = has("k_norm") + has("rope") + 1;
  else
    r.before = has("norm") || has("sum_squares");
  r.after = int_attr(grid.attrs, "gate", 0) != 0 || has("residual");
  return r;
}

TaskWorks::TaskWorks(const Step& step, const Machine& machine)
    : step_(step), machine_(machine), blocks_(step.schedule->program.grids.size(), 1) {
  const TaskProgram& program = step.schedule->program;
  dispatch_ns_ = path_ns(machine, kDispatch) + code_miss_ns(machine, looped_bodies(program) + 1);
  for (GridId g : program.grids.ids()) {
    const TaskGrid& grid = program.grids[g];
    if (!multiplies_in_blocks(grid)) continue;
    const Tensor& weight = program.tensors[find_operand(grid, "weight")->tensor];
    blocks_[g.index] = mkrt::block_strips(static_cast<uint32_t>(tokens_of(step, grid)), weight_type(weight),
                                          mkrt::mma64_strips(machine.warpgroups));
  }
}

uint32_t TaskWorks::block(GridId grid, uint32_t first) const {
  const uint32_t tasks = step_.task_base[grid.index + 1] - step_.task_base[grid.index];
  const uint32_t of_part = tasks / static_cast<uint32_t>(split_k(step_.schedule->program.grids[grid]));
  return std::min(blocks_[grid.index], of_part - first % of_part);
}

// Returns the number of workers that run tasks of the grid at the same time.
double TaskWorks::readers(GridId grid) const {
  return std::clamp(step_.task_base[grid.index + 1] - step_.task_base[grid.index], 1u,
                    step_.schedule->workers);
}

// Returns the rate of one worker's plain loads that do not keep pace with the stream. The stream leaves them
// the rest of L2's ceiling.
double TaskWorks::l2_rate(GridId grid) const {
  return std::min(machine_.worker_l2_bytes_per_ns,
                  (machine_.l2_bytes_per_ns - machine_.stream_bytes_per_ns) / readers(grid));
}

// Returns the cost of a product of `tokens` rows of activations, which `strips` strips load together.
TaskWork TaskWorks::product(GridId grid, int64_t tokens, uint32_t strips) const {
  const TaskProgram& program = step_.schedule->program;
  const TaskGrid& g = program.grids[grid];
  const Access* weight = find_operand(g, "weight");
  MKC_ASSERT(weight, "product " + g.name + " lacks an operand");
  const Tensor& packed = program.tensors[weight->tensor];
  const size_t dims = packed.shape.size();
  const int64_t rows = evaluate(packed.shape[dims - 2], {}), cols = evaluate(packed.shape[dims - 1], {});
  const auto shape =
      mkrt::packed_shape(static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), weight_type(packed));
  const mkrt::WeightFormat& format = shape.format;
  const auto parts = static_cast<uint32_t>(split_k(g));
  Variant variant = variant_of(machine_, program, g, tokens, weight_type(packed), strips);
  to_stored_bytes(variant, format);
  const bool norm = find_operand(g, "norm") != nullptr;
  const auto strip_bytes = static_cast<int64_t>(shape.strip_bytes / parts);

  TaskWork work;
  const bool expert = g.body == BodyKind::kExpert;
  work.strips = expert ? strips : 1;
  work.full_bytes = mkrt::full_tile_bytes(format);
  const int64_t scale_bytes = mkrt::kKSlices / parts * format.scale_bytes;
  const auto tiles = static_cast<uint32_t>(ceil_of(strip_bytes - scale_bytes, work.full_bytes));
  work.tiles = work.strips * tiles;
  work.passes = static_cast<uint32_t>(ceil_of(tokens, variant.group));
  work.tail_bytes = static_cast<uint32_t>(strip_bytes - int64_t{tiles - 1} * work.full_bytes);
  const Tensor& activations = program.tensors[multiplied_rows(g)->tensor];
  const double element_bytes = static_cast<double>(dtype_bytes(activations.dtype));
  const double x_rows = variant.x_rows + (norm ? 1 : 0);
  if (activations.dtype == DType::bf16 && variant.activations_ns > 0)
    variant.activations_ns = machine_.bf16_activations_ns;
  const bool by_groups = variant.group == mkrt::kWgmmaTokens;
  variant.activations_ns += variant.barrier_ns + (by_groups ? machine_.l2_ns : 0);
  if (variant.group <= mkrt::kMma32Tokens && parts > 1) take_sides(variant, parts, strips);
  const double x_bytes =
      x_rows * element_bytes / (kTileRows * static_cast<double>(format.bits) / 8) / variant.strips;
  const double x_ns = variant.activations_ns / variant.x_bytes / variant.strips;
  // The time per byte follows from the instructions, from the loads, or from the L2 traffic per byte of
  // weight. The stream takes its part of L2 while it flows.
  const double ns =
      std::max(1 / variant.bytes_per_ns + x_ns, variant.min_ns / variant.x_bytes / variant.strips);
  work.flowing_ns = std::max(ns, x_bytes / l2_rate(grid));
  work.still_ns = std::max(
      {ns, x_bytes / machine_.worker_l2_bytes_per_ns, x_bytes * readers(grid) / machine_.l2_bytes_per_ns});
  work.starts_once = true;
  const int64_t x_rows_of_step = evaluate(activations.shape[0], step_.symbols);
  const int64_t normed = expert ? x_rows_of_step : tokens;
  double norm_bytes = norm ? static_cast<double>(normed * cols) * element_bytes : 0;
  const Access* sum_squares = find_operand(g, "sum_squares");
  // Sums of squares of few tokens are loaded beside the strips.
  if (sum_squares && x_rows_of_step > mkrt::kMma8Tokens)
    norm_bytes = static_cast<double>(normed * dtype_bytes(DType::f32) *
                                     evaluate(program.tensors[sum_squares->tensor].shape[1], {}));
  work.start_ns = path_ns(machine_, kProductStart) + norm_bytes / l2_rate(grid);
  work.issue_ns = weight_issue_ns(machine_, work.full_bytes);
  if (expert) work.lookup_ns = machine_.fetch_ns;  // lookup of where the expert's rows are
  work.pass_ns = by_groups ? 0 : machine_.l2_ns;
  work.pass_ns += parts > 1 ? sums_bytes(g, tokens) * strips / work.passes / l2_rate(grid)
                            : variant.finishes * machine_.reduce_ns;
  work.end_ns = machine_.task_ns + machine_.barrier_ns;
  return work;
}

// Tells whether the task belongs to a request's last row block. The last blocks are as many as the requests
// and follow all other blocks.
bool TaskWorks::brings_context(const TaskGrid& attend, std::span<const int64_t> coords) const {
  const Symbols& symbols = step_.schedule->program.symbols;
  const std::optional<RowBlocks> blocks = row_blocks(symbols);
  if (!blocks) return true;
  return coords[1] >=
         evaluate(attend.coords[1].extent - symbols[find_symbol(symbols, "q_len")].length, step_.symbols);
}

// Keys and values of earlier positions come through the ring. A request's last row block gets them from
// memory. Its other blocks, and all passes after the first, get them from L2. Keys and values of the step
// come from L2, as each column of a stage is taken. A decode's own are in shared memory.
TaskWork TaskWorks::attend(uint32_t task) const {
  const GridId grid = step_.grid_of[task];
  const TaskGrid& g = step_.schedule->program.grids[grid];
  const Access* q = find_operand(g, "q");
  MKC_ASSERT(q != nullptr, "attend " + g.name + " lacks its queries");
  std::vector<int64_t> coords;
  task_coords(step_, task, coords);
  const int64_t tokens = evaluate(q->region[0].size, step_.symbols, coords);
  const int64_t rows = tokens * int_attr(g.attrs, "heads", 1) / int_attr(g.attrs, "kv_heads", 1);
  const int64_t columns = ceil_of(int_attr(g.attrs, "head_dim", 1), kMergedColumns);
  const Tensor& keys = step_.schedule->program.tensors[find_operand(g, "k_cache")->tensor];
  const bool f32 = keys.dtype == DType::f32;
  const double stepped = cache_bytes(step_, task, false);
  const auto earlier = static_cast<uint64_t>(cache_bytes(step_, task, true));
  const int64_t kv_tile_bytes = 2 * kKvTilePositions * keys.shape.back().constant() * dtype_bytes(keys.dtype);
  const int64_t kv_tiles = std::max<int64_t>(
      1, ceil_of(static_cast<int64_t>(earlier) + static_cast<int64_t>(stepped), kv_tile_bytes));
  const int64_t blocks = ceil_of(rows, f32 ? kMergedRows : 2 * kMergedRows);
  const int64_t sums = kv_tiles * (blocks + ceil_of(rows, kMergedRows) * columns);

  TaskWork work;
  work.tiles = static_cast<uint32_t>((earlier + mkrt::kStageBytes - 1) / mkrt::kStageBytes);
  work.passes = static_cast<uint32_t>(blocks);
  work.cold = brings_context(g, coords);
  if (work.tiles > 0)
    work.tail_bytes = static_cast<uint32_t>(earlier - uint64_t{work.tiles - 1} * mkrt::kStageBytes);
  work.flowing_ns = work.still_ns = 1 / machine_.attend_bytes_per_ns;
  work.issue_ns = cache_issue_ns(machine_, mkrt::kStageBytes);
  work.needed_bytes = work.cold ? earlier : 0;
  work.start_ns = machine_.fetch_ns;
  work.busy_ns = read_bytes(step_, task, is_computed) / l2_rate(grid);
  const bool kept = !f32 && tokens == 1 && static_cast<int64_t>(stepped) <= kv_tile_bytes / kKvTilePositions;
  if (stepped > 0)
    work.busy_ns +=
        static_cast<double>(blocks) * ((kept ? 0 : static_cast<double>(2 * columns) * machine_.poll_ns) +
                                       stepped / machine_.attend_bytes_per_ns);
  work.end_ns = static_cast<double>(sums) * machine_.reduce_ns + machine_.task_ns + machine_.barrier_ns;
  return work;
}

TaskWork TaskWorks::other(uint32_t task) const {
  const GridId grid = step_.grid_of[task];
  const TaskProgram& program = step_.schedule->program;
  const TaskGrid& g = program.grids[grid];
  TaskWork work;
  work.start_ns = machine_.fetch_ns;
  work.busy_ns = read_bytes(step_, task, is_computed) / l2_rate(grid);
  work.end_ns = machine_.task_ns + machine_.barrier_ns;
  if (const Access* table = find_operand(g, "table")) {
    const Tensor& t = program.tensors[table->tensor];
    work.cold_bytes = static_cast<uint64_t>(evaluate(t.shape[1], {}) * dtype_bytes(t.dtype));
  }
  return work;
}

// Returns the cost of a task of a product, of a part or of an expert. An expert's task multiplies all its
// strips with the rows of its expert.
TaskWork TaskWorks::strip(uint32_t task, uint32_t strips) const {
  const GridId grid = step_.grid_of[task];
  const TaskGrid& g = step_.schedule->program.grids[grid];
  std::vector<int64_t> coords;
  task_coords(step_, task, coords);
  const Access& weight = *find_operand(g, "weight");
  const Tensor& t = step_.schedule->program.tensors[weight.tensor];
  const size_t dim = t.shape.size() - 2;
  const Range& range = weight.region[dim];
  const int64_t rows = std::min(evaluate(range.size, step_.symbols, coords),
                                evaluate(t.shape[dim], {}) - evaluate(range.offset, step_.symbols, coords));
  if (g.body == BodyKind::kExpert) strips = static_cast<uint32_t>(ceil_of(rows, kTileRows));
  TaskWork work = product(grid, tokens_of(step_, g, coords), strips);
  const int64_t columns = std::max<int64_t>(0, evaluate(weight.region.back().size, step_.symbols, coords));
  work.needed_bytes = static_cast<uint64_t>(rows * columns * weight_format(t).bits / 8);
  return work;
}

TaskWork TaskWorks::of(uint32_t task, uint32_t strips) const {
  const GridId grid = step_.grid_of[task];
  switch (step_.schedule->program.grids[grid].body) {
    case BodyKind::kProduct:
    case BodyKind::kSplitKPartial:
    case BodyKind::kExpert:
      return strip(task, strips);
    case BodyKind::kAttend:
      return attend(task);
    case BodyKind::kAppend:
    case BodyKind::kCombine:
    case BodyKind::kEmbed:
    case BodyKind::kSample:
    case BodyKind::kRoute:
    case BodyKind::kExpertSum:
    case BodyKind::kSplitKReduce:
    case BodyKind::kRow:
      return other(task);
  }
  MKC_BUG("task of unknown body");
}

}  // namespace mkc
