// Attention has three bodies: append, attend and combine.
#include <fmt/format.h>

#include <algorithm>

#include "ir/bodies/body.h"
#include "ir/ceil.h"
#include "ir/values.h"

namespace mkc {
namespace {

// Returns the largest number of KV tiles that the rows of a block see. The rows see up to window + rows - 1
// positions. A run of n positions lies in up to (n - 2) / kKvTilePositions + 2 KV tiles.
int64_t max_kv_tiles(int64_t context, int64_t window, int64_t max_rows) {
  const int64_t all = ceil_of(context, kKvTilePositions);
  const int64_t seen = window + max_rows - 1;
  return window == 0 ? all : std::min(all, (seen + kKvTilePositions - 2) / kKvTilePositions + 1);
}

// Returns the first KV tile of a request's context that its last `rows` rows see. A row sees its own position
// and the window - 1 positions before it. A window of 0 means all earlier positions.
Expr first_kv_tile(const Expr& rows, const Expr& kv_len, int64_t window) {
  if (window == 0) return 0;
  return floor_div(max(0, kv_len - rows + 1 - window), kKvTilePositions);
}

// Returns the symbols of the step, or nothing where one is missing that attention's regions depend on.
std::optional<StepSymbols> attention_symbols(const TaskProgram& program) {
  const StepSymbols step = step_symbols(program.symbols);
  if (!step.blocks) return std::nullopt;
  const RowBlocks& blocks = *step.blocks;
  for (const SymbolId id :
       {blocks.request, blocks.rows, blocks.first_row, blocks.kv_len, step.tokens, step.q_len, step.kv_len})
    if (!id.valid()) return std::nullopt;
  return step;
}

// Returns the rows of row block coord(1), cut to a tensor of `rows` rows.
Range block_rows(const StepSymbols& step, const Expr& rows) {
  return interval(step.blocks->first_row, step.blocks->rows, 1, rows);
}

// Returns positions [begin, end) of the block's request and of head coord(0). The cache has dims [requests,
// heads, context, head_dim].
Region cache_region(const StepSymbols& step, const std::vector<Expr>& dims, const Expr& begin,
                    const Expr& end) {
  const Expr request = min(element(step.blocks->request, coord(1)), dims[0] - 1);
  return {{request, 1}, {coord(0), 1}, {begin, end - begin}, {0, dims[3]}};
}

// Returns the region that append writes: the positions of a block's rows.
Region appended(const StepSymbols& step, const std::vector<Expr>& dims) {
  const Expr end = element(step.blocks->kv_len, coord(1));
  return cache_region(step, dims, max(0, end - element(step.blocks->rows, coord(1))), end);
}

// Returns the cache region of partial coord(2) of the block. Each of the three regions may be empty.
//
// Positions in the cache before the step are streamed. Positions that append writes are read. Positions left
// to the request's last block are written.
Region attended(const StepSymbols& step, const ContextPartials& partials, const BodyOperand& operand,
                const std::vector<Expr>& dims) {
  const Expr request = min(element(step.blocks->request, coord(1)), dims[0] - 1),
             kv_len = element(step.kv_len, request), q_len = element(step.q_len, request),
             length = element(step.blocks->kv_len, coord(1)), earlier = kv_len - q_len,
             written = min(length, kv_len - (1 + mod(q_len - 1, step.blocks->max_rows))),
             begin = partials.positions * (partials.first + coord(2)), end = begin + partials.positions;
  if (operand.written) return cache_region(step, dims, max(begin, written), min(end, length));
  if (operand.stream) return cache_region(step, dims, begin, min(end, earlier));
  return cache_region(step, dims, max(begin, earlier), min(end, written));
}

}  // namespace

std::string head_dim_fault(int64_t head_dim) {
  if (head_dim % 2 == 0 && head_dim <= kMaxHeadDim) return "";
  return fmt::format("heads of {} columns, expected an even number of at most {}", head_dim, kMaxHeadDim);
}

ContextPartials context_partials(const TaskProgram& program, int64_t window) {
  const StepSymbols step = *attention_symbols(program);
  const int64_t context = program.symbols[step.kv_len].bounds.hi, max_rows = step.blocks->max_rows;
  const bool by_symbol = window == 0 && context > kKvTilePositions && step.blocks->partial_positions.valid();
  const Expr length = element(step.blocks->kv_len, coord(1));
  ContextPartials partials;
  partials.positions = by_symbol ? symbol(step.blocks->partial_positions) : Expr(kKvTilePositions);
  partials.first = first_kv_tile(element(step.blocks->rows, coord(1)), length, window);
  const Expr all = ceil_div(length, partials.positions);
  const int64_t kv_tiles = max_kv_tiles(context, window, max_rows);
  // A windowed block has at least one partial and at most `kv_tiles`. The explicit bounds let interval
  // arithmetic see this.
  partials.count = window == 0 ? all : min(kv_tiles, max(1, all - partials.first));
  partials.max = by_symbol ? floor_div(partial_slots(program.symbols), symbol(step.tokens)) : Expr(kv_tiles);
  return partials;
}

namespace {

using enum OperandKind;

// Returns the region of an operand that is no cache and no partial.
Region rows_region(const FootprintOf& s, const StepSymbols& step) {
  const int64_t head_dim = int_attr(s.grid.attrs, "head_dim", 0),
                group = int_attr(s.grid.attrs, "heads", 0) / int_attr(s.grid.attrs, "kv_heads", 1);
  const auto rows_and = [&](int64_t columns) {
    return Region{block_rows(step, s.dims[0]), {columns * coord(0), columns}};
  };
  if (s.is("k") || s.is("v")) return rows_and(head_dim);
  if (s.is("q") || s.is("out")) return rows_and(group * head_dim);
  return s.whole();  // a norm, the rope table or the sinks
}

// Returns the region of partial_acc or partial_ml. An attend task writes its own partial, and a combine task
// reads all partials of its block.
Region partials_region(const FootprintOf& s, const StepSymbols& step, const ContextPartials& partials) {
  const int64_t head_dim = int_attr(s.grid.attrs, "head_dim", 0),
                group = int_attr(s.grid.attrs, "heads", 0) / int_attr(s.grid.attrs, "kv_heads", 1);
  // A block never has more than `max` partials. The explicit bound lets interval arithmetic see this.
  const Expr first = s.operand.written ? coord(2) : Expr(0),
             count = s.operand.written ? Expr(1) : partials.count;
  const Range slots{first, partials.max.is_const() ? count : min(count, partials.max - first)};
  const int64_t columns = group * (s.is("partial_acc") ? head_dim : 2);
  return {slots, block_rows(step, s.dims[1]), {columns * coord(0), columns}};
}

bool is_cache(const FootprintOf& s) {
  return s.is("k_cache") || s.is("v_cache");
}

std::optional<Region> append_footprint(const FootprintOf& s) {
  const std::optional<StepSymbols> step = attention_symbols(s.program);
  if (!step || (is_cache(s) && (s.operand.stream || !s.operand.written))) return std::nullopt;
  return is_cache(s) ? appended(*step, s.dims) : rows_region(s, *step);
}

std::optional<Region> attend_footprint(const FootprintOf& s) {
  const std::optional<StepSymbols> step = attention_symbols(s.program);
  if (!step) return std::nullopt;
  const bool is_partial = s.is("partial_acc") || s.is("partial_ml");
  if (!is_cache(s) && !is_partial) return rows_region(s, *step);
  const ContextPartials partials = context_partials(s.program, int_attr(s.grid.attrs, "window", 0));
  return is_partial ? partials_region(s, *step, partials) : attended(*step, partials, s.operand, s.dims);
}

// Returns the extent of the row blocks.
std::optional<Expr> blocks_of(const TaskProgram& program) {
  const std::optional<StepSymbols> step = attention_symbols(program);
  if (!step || !step->requests.valid()) return std::nullopt;
  return symbol(step->blocks->count);
}

using Extents = std::vector<std::optional<Expr>>;

// Appends serve the blocks that are not their request's last.
void append_extents(const TaskProgram& program, const TaskGrid&, Extents& extents) {
  if (extents.size() < 2) return;
  extents[1] = blocks_of(program);
  if (extents[1]) extents[1] = max(0, *extents[1] - symbol(step_symbols(program.symbols).requests));
}

void combine_extents(const TaskProgram& program, const TaskGrid&, Extents& extents) {
  if (extents.size() >= 2) extents[1] = blocks_of(program);
}

void attend_extents(const TaskProgram& program, const TaskGrid& grid, Extents& extents) {
  combine_extents(program, grid, extents);
  if (extents.size() == 3 && extents[1])
    extents[2] = context_partials(program, int_attr(grid.attrs, "window", 0)).count;
}

// Checks V18: heads have columns that attention takes, and are a multiple of the key/value heads. Checks V17
// of the rotation table.
void check_attention_heads(const GridUnderCheck& c) {
  c.check_positions();
  const auto of = [&](const char* name) { return int_attr(c.grid.attrs, name, 0); };
  const int64_t head_dim = of("head_dim"), heads = of("heads"), kv_heads = of("kv_heads");
  if (head_dim < 1 || heads < 1 || kv_heads < 1 || heads % kv_heads != 0)
    c.v.report(18, c.site,
               fmt::format("head_dim is {}, heads {} and kv_heads {}, expected at least 1 each, and heads a "
                           "multiple of kv_heads",
                           head_dim, heads, kv_heads));
  else if (const std::string fault = head_dim_fault(head_dim); !fault.empty())
    c.v.report(18, c.site, fault);
}

// Attention reads its caches twice: positions from before the step, and positions that the step appends.
void check_caches(Verifier& v, const TaskProgram&, const TaskGrid& grid, const Site& site) {
  for (const char* role : {"k_cache", "v_cache"})
    for (const bool stream : {false, true})
      if (std::none_of(grid.reads.begin(), grid.reads.end(),
                       [&](const Access& a) { return a.role == role && a.stream == stream; }))
        v.report(33, site,
                 fmt::format("it reads no {} that {}", role, stream ? "streams" : "the step appends"));
}

}  // namespace

const Body& append_body() {
  static const Body body = {.kind = BodyKind::kAppend,
                            .name = "append",
                            .schema = {{{"g", "G"}, {"k", ""}},
                                       {{"k", {kValue, "TE"}},
                                        {"v", {kValue, "TE"}},
                                        {"rope?", {kTable, "Rh"}},
                                        {"k_norm?", {kVector, "h"}}},
                                       {{"k_cache", {kCache, "BGCh"}}, {"v_cache", {kCache, "BGCh"}}},
                                       {"head_dim", "heads", "kv_heads"},
                                       {"k_eps?"}},
                            .footprint = append_footprint,
                            .set_extents = append_extents,
                            .check = check_attention_heads,
                            .min_extent = 0};
  return body;
}

const Body& attend_body() {
  static const Body body = {.kind = BodyKind::kAttend,
                            .name = "attend",
                            .schema = {{{"g", "G"}, {"k", ""}, {"p", ""}},
                                       {{"q", {kValue, "TQ"}},
                                        {"k", {kValue, "TE"}},
                                        {"v", {kValue, "TE"}},
                                        {"rope?", {kTable, "Rh"}},
                                        {"q_norm?", {kVector, "h"}},
                                        {"k_norm?", {kVector, "h"}},
                                        {"k_cache", {kCache, "BGCh"}},
                                        {"v_cache", {kCache, "BGCh"}}},
                                       {{"k_cache", {kCache, "BGCh"}},
                                        {"v_cache", {kCache, "BGCh"}},
                                        {"partial_acc", {kValue, "PTQ"}},
                                        {"partial_ml", {kValue, "PTM"}}},
                                       {"head_dim", "heads", "kv_heads", "window?"},
                                       {"k_eps?", "q_eps?", "scale"}},
                            .footprint = attend_footprint,
                            .set_extents = attend_extents,
                            .check = check_attention_heads,
                            .check_regions = check_caches};
  return body;
}

const Body& combine_body() {
  static const Body body = {.kind = BodyKind::kCombine,
                            .name = "combine",
                            .schema = {{{"g", "G"}, {"k", ""}},
                                       {{"partial_acc", {kValue, "PTQ"}},
                                        {"partial_ml", {kValue, "PTM"}},
                                        {"sinks?", {kVector, "H"}}},
                                       {{"out", {kEither, "TQ"}}},
                                       {"head_dim", "heads", "kv_heads", "window?"},
                                       {}},
                            .footprint = attend_footprint,
                            .set_extents = combine_extents,
                            .check = check_attention_heads,
                            .merges = BodyKind::kAttend};
  return body;
}

}  // namespace mkc
