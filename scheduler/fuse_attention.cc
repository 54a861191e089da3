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
  int64_t most_pieces;  // that a request's rows look at
  Expr requests;
  SymbolId first_row, rows, kv_len;  // lists over the requests
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

// Pieces that a request's rows look at. Those of a step see up to window + rows - 1 positions, of which n lie
// in up to (n - 2) / piece + 2 pieces.
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
  p.most_pieces =
      most_pieces(p.context.constant(), p.window, bounds(p.tokens, symbol_bounds(f.graph.symbols)).hi);
  for (auto [name, list] :
       {std::pair{"first_row", &p.first_row}, {"q_len", &p.rows}, {"kv_len", &p.kv_len}}) {
    const Result<SymbolId> found = f.request_list(attention, name, p.requests);
    if (!found.ok()) return found.error();
    *list = found.value();
  }
  return p;
}

std::vector<OpId> ops_of(const AttentionPattern& p, OpId attention) {
  std::vector<OpId> ops = {p.q.norm, p.q.rope, p.k.norm, p.k.rope, p.kv_write, attention};
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

// What a task of request coord(1) needs to know of it.
struct RequestExprs {
  Expr length;  // positions in the cache
  Expr fresh;   // the first position of this step
  Expr first;   // piece that its rows look at
  Expr pieces;  // from there on
  Range rows;   // of the step
};

RequestExprs request_exprs(const AttentionPattern& p) {
  const Expr b = coord(1), rows = element(p.rows, b), start = element(p.first_row, b);
  RequestExprs r;
  r.length = element(p.kv_len, b);
  r.fresh = r.length - rows;
  r.first = first_piece(rows, r.length, p.window, kPiecePositions);
  // At least one and at most so many anyhow, which intervals alone do not show.
  const Expr all = ceil_div(r.length, kPiecePositions);
  r.pieces = p.window == 0 ? all : min(p.most_pieces, max(1, all - r.first));
  r.rows = {start, min(rows, p.tokens - start)};
  return r;
}

// Piece `coord(2)` from the request's first on of its positions: what earlier steps left is read, this step's
// share is written. Either may be empty, with a size of 0 or less.
void access_caches(Fusion& f, GridId grid, const AttentionPattern& p, const RequestExprs& r,
                   const std::vector<TensorId>& caches) {
  const char* const roles[] = {"k_cache", "v_cache"};
  const Expr begin = kPiecePositions * (r.first + coord(2));
  const Expr end = begin + kPiecePositions;
  const Expr write_from = max(begin, r.fresh);
  const Range request = {coord(1), 1}, head = {coord(0), 1}, columns = {0, p.head_dim};
  for (size_t i = 0; i < 2; ++i) {
    f.read(grid, roles[i], f.use(caches[i]), {request, head, {begin, min(end, r.fresh) - begin}, columns});
    f.write(grid, roles[i], f.use(caches[i]),
            {request, head, {write_from, min(end, r.length) - write_from}, columns});
  }
}

}  // namespace

Status fuse_attention(Fusion& f, OpId attention) {
  Result<AttentionPattern> matched = match(f, attention);
  if (!matched.ok()) return matched.error();
  const AttentionPattern& p = matched.value();
  const Op& op = f.graph.ops[attention];
  const std::string prefix = op.layer < 0 ? "" : "l" + std::to_string(op.layer) + ".";
  const RequestExprs r = request_exprs(p);
  const GridId attend =
      f.add_grid(prefix + "attend", BodyKind::kAttend,
                 {{"g", p.kv_heads}, {"b", p.requests}, {"p", r.pieces}}, ops_of(p, attention));
  Attrs& attrs = f.program.grids[attend].attrs;
  for (const char* name : {"heads", "kv_heads", "head_dim"})
    set_attr(attrs, name, int_attr(op.attrs, name, 0));
  set_attr(attrs, "piece", kPiecePositions);
  if (p.window != 0) set_attr(attrs, "window", p.window);
  const Attrs shared = attrs;
  set_attr(attrs, "scale", float_attr(op.attrs, "scale", 1));

  const Range& rows = r.rows;
  f.read(attend, "q", f.use(p.q.x), {rows, group_columns(p, p.head_dim)});
  const Range kv_columns = {p.head_dim * coord(0), p.head_dim};
  f.read(attend, "k", f.use(p.k.x), {rows, kv_columns});
  f.read(attend, "v", f.use(p.v), {rows, kv_columns});
  f.read(attend, "positions", f.use(op.inputs[3]), {rows});
  const TensorId table = f.use(f.graph.ops[p.q.rope].inputs[2]);
  f.read(attend, "rope", table, whole(f.program.tensors[table]));
  read_head_norm(f, attend, "q_norm", "q_eps", p.q.norm);
  read_head_norm(f, attend, "k_norm", "k_eps", p.k.norm);
  access_caches(f, attend, p, r, {op.inputs[1], op.inputs[2]});

  const std::string name = f.program.grids[attend].name;
  const TensorId acc = f.add_activation(name + ".part_acc", DType::f32,
                                        {p.most_pieces, p.tokens, p.heads * p.head_dim}, op.loc);
  const TensorId ml =
      f.add_activation(name + ".part_ml", DType::f32, {p.most_pieces, p.tokens, 2 * p.heads}, op.loc);
  const TensorId out = f.use(op.outputs[0]);
  const GridId combine =
      f.add_grid(prefix + "combine", BodyKind::kCombine, {{"g", p.kv_heads}, {"b", p.requests}}, {attention});
  f.program.grids[combine].attrs = shared;
  for (auto [role, tensor, width] : {std::tuple{"part_acc", acc, p.head_dim}, {"part_ml", ml, int64_t{2}}}) {
    f.write(attend, role, tensor, {{coord(2), 1}, rows, group_columns(p, width)});
    f.read(combine, role, tensor, {{0, r.pieces}, rows, group_columns(p, width)});
  }
  f.write(combine, "out", out, {rows, group_columns(p, p.head_dim)});
  return {};
}

}  // namespace mkc
