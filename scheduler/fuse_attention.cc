#include <fmt/format.h>

#include <algorithm>

#include "ir/bodies.h"
#include "ir/values.h"
#include "scheduler/fuse.h"
#include "scheduler/fuse_build.h"

namespace mkc {
namespace {

// The ops between a projection and the attention: head_norm?, then rope.
struct Rotated {
  TensorId x;  // the projection's result
  OpId norm;   // invalid: none
  OpId rope;
};

struct AttentionPattern {
  Rotated q, k;
  TensorId v;
  OpId kv_write;
  int64_t heads, kv_heads, head_dim;
  int64_t window;  // 0: no position is left out
  Expr tokens, context;
  Expr requests;
  SymbolId rows, kv_len;  // lists over the requests
};

Result<Rotated> find_rotated(const Fusion& f, TensorId roped, OpId reader) {
  Rotated r;
  r.rope = f.sole_producer_of(roped, OpKind::kRope);
  if (!r.rope.valid())
    return f.misfit(reader, "%" + f.tensor(roped).name + " is not a rope's result that nothing else reads");
  r.x = f.graph.ops[r.rope].inputs[0];
  r.norm = f.sole_producer_of(r.x, OpKind::kHeadNorm);
  if (r.norm.valid()) r.x = f.graph.ops[r.norm].inputs[0];
  return r;
}

// The write of this step's keys and values to the caches that the attention reads.
Result<OpId> find_kv_write(const Fusion& f, OpId attention) {
  const std::vector<TensorId>& inputs = f.graph.ops[attention].inputs;
  const OpId write = f.producer_of(inputs[1], OpKind::kKvWrite);
  if (!write.valid() || write > attention || f.graph.ops[write].outputs != std::vector{inputs[1], inputs[2]})
    return f.misfit(attention, "no kv_write before it fills its caches");
  return write;
}

// Pieces that the rows of a block look at. They see up to window + rows - 1 positions, of which n lie in up
// to (n - 2) / piece + 2 pieces.
int64_t most_pieces(int64_t context, int64_t window, int64_t most_rows) {
  const int64_t all = (context + kPiecePositions - 1) / kPiecePositions;
  const int64_t seen = window + most_rows - 1;
  return window == 0 ? all : std::min(all, (seen + kPiecePositions - 2) / kPiecePositions + 1);
}

Result<AttentionPattern> match(const Fusion& f, OpId attention) {
  const Op& op = f.graph.ops[attention];
  AttentionPattern p;
  Result<OpId> write = find_kv_write(f, attention);
  if (!write.ok()) return write.error();
  p.kv_write = write.value();
  const Op& kv = f.graph.ops[p.kv_write];
  Result<Rotated> q = find_rotated(f, op.inputs[0], attention);
  if (!q.ok()) return q.error();
  Result<Rotated> k = find_rotated(f, kv.inputs[0], p.kv_write);
  if (!k.ok()) return k.error();
  p.q = q.value(), p.k = k.value(), p.v = kv.inputs[1];

  const std::vector<TensorId>&q_rope = f.graph.ops[p.q.rope].inputs, &k_rope = f.graph.ops[p.k.rope].inputs;
  const TensorId positions = op.inputs[3];
  if (q_rope[1] != positions || k_rope[1] != positions || kv.inputs[2] != positions)
    return f.misfit(attention, "its queries and keys have different positions");
  if (q_rope[2] != k_rope[2]) return f.misfit(attention, "its queries and keys have different rope tables");
  p.heads = int_attr(op.attrs, "heads", 0);
  p.kv_heads = int_attr(op.attrs, "kv_heads", 0);
  p.head_dim = int_attr(op.attrs, "head_dim", 0);
  p.tokens = f.tensor(op.inputs[0]).shape[0];
  p.requests = f.tensor(op.inputs[1]).shape[0];
  p.context = f.tensor(op.inputs[1]).shape[2];
  const int64_t window = int_attr(op.attrs, "window", 0);
  p.window = window < p.context.constant() ? window : 0;
  if (const Result<SymbolId> first = f.request_list(attention, "first_row", p.requests); !first.ok())
    return first.error();
  for (auto [name, list] : {std::pair{"q_len", &p.rows}, {"kv_len", &p.kv_len}}) {
    const Result<SymbolId> found = f.request_list(attention, name, p.requests);
    if (!found.ok()) return found.error();
    *list = found.value();
  }
  return p;
}

// Without those that are not there, in order.
std::vector<OpId> in_order(std::vector<OpId> ops) {
  std::erase_if(ops, [](OpId op) { return !op.valid(); });
  std::sort(ops.begin(), ops.end());
  return ops;
}

void read_head_norm(Fusion& f, GridId grid, const char* role, const char* eps, OpId norm) {
  if (!norm.valid()) return;
  const TensorId scale = f.use_vector(f.graph.ops[norm].inputs[1]);
  f.read(grid, role, scale, whole(f.program.tensors[scale]));
  set_attr(f.program.grids[grid].attrs, eps, float_attr(f.graph.ops[norm].attrs, "eps", 0));
}

// The columns of one key/value head's group, as coordinate 0 tells, in rows of `width` a query head.
Range group_columns(const AttentionPattern& p, int64_t width) {
  const int64_t columns = p.heads / p.kv_heads * width;
  return {columns * coord(0), columns};
}

// The cut symbols of the program, added where they are not there yet: then the first attention decides how
// many tokens make a block.
RowBlocks use_row_blocks(Fusion& f, const AttentionPattern& p, const Loc& loc) {
  Symbols& symbols = f.program.symbols;
  if (const std::optional<RowBlocks> known = row_blocks(symbols)) return *known;
  const std::vector<Bounds> limits = symbol_bounds(symbols);
  const int64_t tokens = bounds(p.tokens, limits).hi, requests = bounds(p.requests, limits).hi,
                most_rows = std::max<int64_t>(1, kBlockRows * p.kv_heads / p.heads),
                most_blocks = std::min(tokens, (tokens + requests * (most_rows - 1)) / most_rows);
  const SymbolId count = symbols.add({"blocks", {1, most_blocks}, loc, 0, {}, false, true});
  const auto list = [&](const char* name, Bounds elements, SymbolId sums = {}) {
    return symbols.add({name, elements, loc, symbol(count), sums, false, true});
  };
  const SymbolId rows = list("block_rows", {1, most_rows});
  list("block_first_row", {0, tokens - 1}, rows);
  list("block_request", {0, requests - 1});
  list("block_kv_len", {1, p.context.constant()});
  return *row_blocks(symbols);
}

// Positions of a part: those of the cut symbol part_positions, added where it is not there yet. With a
// window, and in a context of one piece, a piece's.
Expr use_parts(Fusion& f, const AttentionPattern& p, const Loc& loc) {
  Symbols& symbols = f.program.symbols;
  if (p.window != 0 || p.context.constant() <= kPiecePositions) return kPiecePositions;
  const SymbolId part = row_blocks(symbols)->part;
  if (part.valid()) return symbol(part);
  return symbol(symbols.add({"part_positions", {kPiecePositions, kSpanPositions}, loc, 0, {}, false, true}));
}

// What a task of block coord(1) needs to know of it.
struct BlockExprs {
  Range request;
  Expr earlier;  // positions in the request's cache before the step
  Expr length;   // and up to the block's last row
  Expr written;  // from there on its own attention writes them: those of a request's last block
  Expr first;    // piece that its rows look at
  Expr part;     // positions of a part
  Expr parts;    // from that piece on
  Range rows;    // of the step
};

BlockExprs block_exprs(const AttentionPattern& p, const RowBlocks& blocks, const Expr& part) {
  const Expr k = coord(1), rows = element(blocks.rows, k), start = element(blocks.first_row, k),
             request = min(element(blocks.request, k), p.requests - 1),
             last_rows = 1 + mod(element(p.rows, request) - 1, blocks.most_rows);
  BlockExprs b;
  b.request = {request, 1};
  b.earlier = element(p.kv_len, request) - element(p.rows, request);
  b.length = element(blocks.kv_len, k);
  b.written = min(b.length, element(p.kv_len, request) - last_rows);
  b.first = first_piece(rows, b.length, p.window, kPiecePositions);
  // With a window at least one and at most so many anyhow, which intervals alone do not show.
  const Expr all = ceil_div(b.length, part);
  b.part = part;
  b.parts = p.window == 0
                ? all
                : min(most_pieces(p.context.constant(), p.window, blocks.most_rows), max(1, all - b.first));
  b.rows = {start, min(rows, p.tokens - start)};
  return b;
}

// A range of positions of the block's request and head coord(0), in both caches.
enum class CacheUse { kStream, kRead, kWrite };
void access_caches(Fusion& f, GridId grid, const AttentionPattern& p, const BlockExprs& b, OpId attention,
                   const Range& positions, CacheUse use) {
  const std::vector<TensorId>& inputs = f.graph.ops[attention].inputs;
  for (auto [role, cache] : {std::pair{"k_cache", inputs[1]}, {"v_cache", inputs[2]}}) {
    const Region region = {b.request, {coord(0), 1}, positions, {0, p.head_dim}};
    if (use == CacheUse::kWrite)
      f.write(grid, role, f.use(cache), region);
    else
      f.read(grid, role, f.use(cache), region, use == CacheUse::kStream);
  }
}

// The keys and values of a block's rows, and what turns keys into those of the cache.
void read_fresh(Fusion& f, GridId grid, const AttentionPattern& p, const BlockExprs& b) {
  const Range columns = {p.head_dim * coord(0), p.head_dim};
  f.read(grid, "k", f.use(p.k.x), {b.rows, columns});
  f.read(grid, "v", f.use(p.v), {b.rows, columns});
  const std::vector<TensorId>& rope = f.graph.ops[p.k.rope].inputs;
  f.read(grid, "positions", f.use(rope[1]), {b.rows});
  const TensorId table = f.use(rope[2]);
  f.read(grid, "rope", table, whole(f.program.tensors[table]));
  read_head_norm(f, grid, "k_norm", "k_eps", p.k.norm);
}

// A grid of tasks for key/value heads and blocks, with the attributes that all of these have.
GridId add_block_grid(Fusion& f, const AttentionPattern& p, BodyKind body, const Expr& blocks, OpId attention,
                      std::vector<OpId> ops) {
  const int32_t layer = f.graph.ops[attention].layer;
  const std::string prefix = layer < 0 ? "" : "l" + std::to_string(layer) + ".";
  const GridId grid =
      f.add_grid(prefix + body_name(body), body, {{"g", p.kv_heads}, {"k", blocks}}, std::move(ops));
  Attrs& attrs = f.program.grids[grid].attrs;
  set_attr(attrs, "heads", p.heads);
  set_attr(attrs, "kv_heads", p.kv_heads);
  set_attr(attrs, "head_dim", p.head_dim);
  return grid;
}

// Later blocks of a request read what all but its last one append, so that comes before any attention.
void add_append(Fusion& f, const AttentionPattern& p, const RowBlocks& blocks, const BlockExprs& b,
                OpId attention) {
  const GridId append = add_block_grid(f, p, BodyKind::kAppend, max(0, symbol(blocks.count) - p.requests),
                                       attention, in_order({p.k.norm, p.k.rope, p.kv_write}));
  read_fresh(f, append, p, b);
  const Expr begin = max(0, b.length - element(blocks.rows, coord(1)));
  access_caches(f, append, p, b, attention, {begin, b.length - begin}, CacheUse::kWrite);
}

// Parts that a row of a step may have slots for.
Expr most_parts(const Fusion& f, const AttentionPattern& p, const RowBlocks& blocks, const BlockExprs& b) {
  if (!b.part.is_const()) return floor_div(part_slots(f.program.symbols), p.tokens);
  return most_pieces(p.context.constant(), p.window, blocks.most_rows);
}

// What attend leaves of each part of a row, and combine adds up.
void hand_parts_over(Fusion& f, const AttentionPattern& p, const BlockExprs& b, GridId attend, GridId combine,
                     const Expr& most, const Loc& loc) {
  // There are no more than `most` anyhow, which intervals alone do not show.
  const auto slots = [&](const Expr& first, const Expr& parts) {
    return Range{first, most.is_const() ? parts : min(parts, most - first)};
  };
  for (auto [role, width] : {std::pair{"part_acc", p.head_dim}, {"part_ml", int64_t{2}}}) {
    const TensorId tensor = f.add_activation(f.program.grids[attend].name + "." + role, DType::f32,
                                             {most, p.tokens, p.heads * width}, loc);
    f.write(attend, role, tensor, {slots(coord(2), 1), b.rows, group_columns(p, width)});
    f.read(combine, role, tensor, {slots(0, b.parts), b.rows, group_columns(p, width)});
  }
}

}  // namespace

Status fuse_attention(Fusion& f, OpId attention) {
  Result<AttentionPattern> matched = match(f, attention);
  if (!matched.ok()) return matched.error();
  const AttentionPattern& p = matched.value();
  const Op& op = f.graph.ops[attention];
  const RowBlocks blocks = use_row_blocks(f, p, op.loc);
  const BlockExprs b = block_exprs(p, blocks, use_parts(f, p, op.loc));
  add_append(f, p, blocks, b, attention);

  const GridId attend = add_block_grid(f, p, BodyKind::kAttend, symbol(blocks.count), attention,
                                       in_order({p.q.norm, p.q.rope, attention}));
  f.program.grids[attend].coords.push_back({"p", b.parts});
  f.read(attend, "q", f.use(p.q.x), {b.rows, group_columns(p, p.head_dim)});
  read_fresh(f, attend, p, b);
  read_head_norm(f, attend, "q_norm", "q_eps", p.q.norm);
  // Of part coord(2) of the block what was there before the step is streamed, what others have appended is
  // read, and what is left to the block is written. Each may be empty, with a size of 0 or less.
  const Expr begin = b.part * (b.first + coord(2)), end = begin + b.part, appended = max(begin, b.earlier),
             own = max(begin, b.written);
  access_caches(f, attend, p, b, attention, {begin, min(end, b.earlier) - begin}, CacheUse::kStream);
  access_caches(f, attend, p, b, attention, {appended, min(end, b.written) - appended}, CacheUse::kRead);
  access_caches(f, attend, p, b, attention, {own, min(end, b.length) - own}, CacheUse::kWrite);

  const TensorId out = f.use(op.outputs[0]);
  const GridId combine =
      add_block_grid(f, p, BodyKind::kCombine, symbol(blocks.count), attention, {attention});
  hand_parts_over(f, p, b, attend, combine, most_parts(f, p, blocks, b), op.loc);
  f.write(combine, "out", out, {b.rows, group_columns(p, p.head_dim)});
  for (GridId grid : {attend, combine}) {
    Attrs& attrs = f.program.grids[grid].attrs;
    set_attr(attrs, "piece", kPiecePositions);
    if (p.window != 0) set_attr(attrs, "window", p.window);
    if (grid == attend) set_attr(attrs, "scale", float_attr(op.attrs, "scale", 1));
  }
  return {};
}

}  // namespace mkc
