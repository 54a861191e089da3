#include "ir/footprint_attention.h"

#include <algorithm>

#include "ir/bodies.h"
#include "ir/values.h"

namespace mkc {
namespace {

// Returns the largest number of KV tiles that the rows of a block see. The rows see up to window + rows - 1
// positions. A run of n positions lies in up to (n - 2) / kKvTilePositions + 2 KV tiles.
int64_t max_kv_tiles(int64_t context, int64_t window, int64_t max_rows) {
  const int64_t all = (context + kKvTilePositions - 1) / kKvTilePositions;
  const int64_t seen = window + max_rows - 1;
  return window == 0 ? all : std::min(all, (seen + kKvTilePositions - 2) / kKvTilePositions + 1);
}

// Lists holds the symbols that attention's regions depend on.
struct Lists {
  RowBlocks blocks;
  SymbolId tokens, q_len, kv_len;
};

std::optional<Lists> find_lists(const TaskProgram& program) {
  const std::optional<RowBlocks> blocks = row_blocks(program.symbols);
  if (!blocks) return std::nullopt;
  const Lists lists{*blocks, find_symbol(program.symbols, "T"), find_symbol(program.symbols, "q_len"),
                    find_symbol(program.symbols, "kv_len")};
  for (const SymbolId id : {blocks->request, blocks->rows, blocks->first_row, blocks->kv_len, lists.tokens,
                            lists.q_len, lists.kv_len})
    if (!id.valid()) return std::nullopt;
  return lists;
}

// Returns the rows of row block coord(1), cut to a tensor of `rows` rows.
Range block_rows(const Lists& lists, const Expr& rows) {
  const Expr start = element(lists.blocks.first_row, coord(1));
  return {start, min(element(lists.blocks.rows, coord(1)), rows - start)};
}

// Returns positions [begin, end) of the block's request and of head coord(0). The cache has dims [requests,
// heads, context, head_dim].
Region cache_region(const Lists& lists, const std::vector<Expr>& dims, const Expr& begin, const Expr& end) {
  const Expr request = min(element(lists.blocks.request, coord(1)), dims[0] - 1);
  return {{request, 1}, {coord(0), 1}, {begin, end - begin}, {0, dims[3]}};
}

// Returns the region that append writes: the positions of a block's rows.
Region appended(const Lists& lists, const std::vector<Expr>& dims) {
  const Expr end = element(lists.blocks.kv_len, coord(1));
  return cache_region(lists, dims, max(0, end - element(lists.blocks.rows, coord(1))), end);
}

// Returns the cache region of partial coord(2) of the block. Each of the three regions may be empty.
//
// Positions in the cache before the step are streamed. Positions that append writes are read. Positions left
// to the request's last block are written.
Region attended(const Lists& lists, const ContextPartials& partials, const BodyOperand& operand,
                const std::vector<Expr>& dims) {
  const Expr request = min(element(lists.blocks.request, coord(1)), dims[0] - 1),
             kv_len = element(lists.kv_len, request), q_len = element(lists.q_len, request),
             length = element(lists.blocks.kv_len, coord(1)), earlier = kv_len - q_len,
             written = min(length, kv_len - (1 + mod(q_len - 1, lists.blocks.max_rows))),
             begin = partials.positions * (partials.first + coord(2)), end = begin + partials.positions;
  if (operand.written) return cache_region(lists, dims, max(begin, written), min(end, length));
  if (operand.stream) return cache_region(lists, dims, begin, min(end, earlier));
  return cache_region(lists, dims, max(begin, earlier), min(end, written));
}

}  // namespace

ContextPartials context_partials(const TaskProgram& program, int64_t window) {
  const Lists lists = *find_lists(program);
  const int64_t context = program.symbols[lists.kv_len].bounds.hi, max_rows = lists.blocks.max_rows;
  const bool by_symbol = window == 0 && context > kKvTilePositions && lists.blocks.partial_positions.valid();
  const Expr length = element(lists.blocks.kv_len, coord(1));
  ContextPartials partials;
  partials.positions = by_symbol ? symbol(lists.blocks.partial_positions) : Expr(kKvTilePositions);
  partials.first = first_kv_tile(element(lists.blocks.rows, coord(1)), length, window, kKvTilePositions);
  const Expr all = ceil_div(length, partials.positions);
  const int64_t kv_tiles = max_kv_tiles(context, window, max_rows);
  // A windowed block has at least one partial and at most `kv_tiles`. The explicit bounds let interval
  // arithmetic see this.
  partials.count = window == 0 ? all : min(kv_tiles, max(1, all - partials.first));
  partials.max = by_symbol ? floor_div(partial_slots(program.symbols), symbol(lists.tokens)) : Expr(kv_tiles);
  return partials;
}

std::optional<Region> attention_footprint(const TaskProgram& program, const TaskGrid& grid,
                                          const BodyOperand& operand) {
  const std::optional<Lists> lists = find_lists(program);
  if (!lists) return std::nullopt;
  const std::vector<Expr>& dims = program.tensors[operand.tensor].shape;
  const auto is = [&](std::string_view role) { return operand.role == role; };
  const auto rows_and = [&](int64_t columns) {
    return Region{block_rows(*lists, dims[0]), {columns * coord(0), columns}};
  };
  const int64_t head_dim = int_attr(grid.attrs, "head_dim", 0),
                group = int_attr(grid.attrs, "heads", 0) / int_attr(grid.attrs, "kv_heads", 1);
  if (is("k") || is("v")) return rows_and(head_dim);
  if (is("q") || is("out")) return rows_and(group * head_dim);
  if (is("positions")) return Region{block_rows(*lists, dims[0])};
  const bool is_cache = is("k_cache") || is("v_cache");
  if (is_cache && grid.body == BodyKind::kAppend) {
    if (operand.stream || !operand.written) return std::nullopt;
    return appended(*lists, dims);
  }
  if (!is_cache && !is("partial_acc") && !is("partial_ml")) {  // norms and the rope table
    Region whole;
    for (const Expr& dim : dims) whole.push_back({0, dim});
    return whole;
  }
  const ContextPartials partials = context_partials(program, int_attr(grid.attrs, "window", 0));
  if (is_cache) return attended(*lists, partials, operand, dims);
  // A block never has more than `max` partials. The explicit bound lets interval arithmetic see this.
  const Expr first = operand.written ? coord(2) : Expr(0), count = operand.written ? Expr(1) : partials.count;
  const Range slots{first, partials.max.is_const() ? count : min(count, partials.max - first)};
  const int64_t columns = group * (is("partial_acc") ? head_dim : 2);
  return Region{slots, block_rows(*lists, dims[1]), {columns * coord(0), columns}};
}

void add_attention_extents(const TaskProgram& program, const TaskGrid& grid,
                           std::vector<std::optional<Expr>>& extents) {
  const std::optional<Lists> lists = find_lists(program);
  const SymbolId requests = find_symbol(program.symbols, "B");
  if (!lists || !requests.valid() || extents.size() < 2) return;
  const Expr blocks = symbol(lists->blocks.count);
  extents[1] = grid.body == BodyKind::kAppend ? max(0, blocks - symbol(requests)) : blocks;
  if (grid.body == BodyKind::kAttend && extents.size() == 3)
    extents[2] = context_partials(program, int_attr(grid.attrs, "window", 0)).count;
}

}  // namespace mkc
