#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ir/bodies.h"
#include "ir/footprint.h"
#include "ir/values.h"
#include "scheduler/tiling/fuse_build.h"

namespace mkc {
namespace {

// Rotated has the ops between a projection and attention that attention's tasks apply: an optional head_norm,
// then an optional rope. The ids are invalid where there are none.
struct Rotated {
  TensorId x;  // what the tasks read
  OpId norm, rope;
};

struct AttentionPattern {
  Rotated q, k;
  TensorId v;
  OpId kv_write;
  int64_t heads, kv_heads, head_dim;
  int64_t window;  // 0: every earlier position is visible
  Expr tokens, context;
  Expr requests;
};

// Returns what comes before `given`, the queries or keys of an attention. With `roped` the rope is the last
// of it.
Rotated find_rotated(const Fusion& f, TensorId given, bool roped) {
  Rotated r;
  r.x = given;
  if (roped) {
    r.rope = f.sole_producer_of(given, OpKind::kRope);
    r.x = f.graph.ops[r.rope].inputs[0];
  }
  r.norm = f.sole_producer_of(r.x, OpKind::kHeadNorm);
  if (r.norm.valid()) r.x = f.graph.ops[r.norm].inputs[0];
  return r;
}

// Tells whether attention's tasks can rotate both queries and keys: by one table and the attention's
// positions.
bool rotates_both(const Fusion& f, TensorId q, TensorId k, TensorId positions) {
  const OpId of_q = f.sole_producer_of(q, OpKind::kRope), of_k = f.sole_producer_of(k, OpKind::kRope);
  if (!of_q.valid() || !of_k.valid()) return false;
  const std::vector<TensorId>&a = f.graph.ops[of_q].inputs, &b = f.graph.ops[of_k].inputs;
  return a[1] == positions && b[1] == positions && a[2] == b[2];
}

// Finds the op that writes this step's keys and values to the caches that the attention reads.
Result<OpId> find_kv_write(const Fusion& f, OpId attention) {
  const std::vector<TensorId>& inputs = f.graph.ops[attention].inputs;
  const OpId write = f.producer_of(inputs[1], OpKind::kKvWrite);
  if (!write.valid() || write > attention || f.graph.ops[write].outputs != std::vector{inputs[1], inputs[2]})
    return f.misfit(attention, "no kv_write before it fills its caches");
  return write;
}

Result<AttentionPattern> match(const Fusion& f, OpId attention) {
  const Op& op = f.graph.ops[attention];
  AttentionPattern p;
  Result<OpId> write = find_kv_write(f, attention);
  if (!write.ok()) return write.error();
  p.kv_write = write.value();
  const Op& kv = f.graph.ops[p.kv_write];
  if (kv.inputs[2] != op.inputs[3])
    return f.misfit(attention, "its queries and keys have different positions");
  const bool roped = rotates_both(f, op.inputs[0], kv.inputs[0], op.inputs[3]);
  p.q = find_rotated(f, op.inputs[0], roped);
  p.k = find_rotated(f, kv.inputs[0], roped);
  p.v = kv.inputs[1];
  p.heads = int_attr(op.attrs, "heads", 0);
  p.kv_heads = int_attr(op.attrs, "kv_heads", 0);
  p.head_dim = int_attr(op.attrs, "head_dim", 0);
  if (const std::string fault = head_dim_fault(p.head_dim); !fault.empty()) return f.misfit(attention, fault);
  p.tokens = f.tensor(op.inputs[0]).shape[0];
  p.requests = f.tensor(op.inputs[1]).shape[0];
  p.context = f.tensor(op.inputs[1]).shape[2];
  const int64_t window = int_attr(op.attrs, "window", 0);
  p.window = window < p.context.constant() ? window : 0;
  if (Status listed = f.require_lists(
          attention, {mkrt::kFirstRowSymbol, mkrt::kQLenSymbol, mkrt::kKvLenSymbol}, p.requests);
      !listed.ok())
    return listed.error();
  return p;
}

// Returns the valid ids in order.
std::vector<OpId> in_order(std::vector<OpId> ops) {
  std::erase_if(ops, [](OpId op) { return !op.valid(); });
  std::sort(ops.begin(), ops.end());
  return ops;
}

void read_head_norm(Fusion& f, GridId grid, const char* role, const char* eps, OpId norm) {
  if (!norm.valid()) return;
  f.read(grid, role, f.use_vector(f.graph.ops[norm].inputs[1]));
  set_attr(f.program.grids[grid].attrs, eps, float_attr(f.graph.ops[norm].attrs, "eps", 0));
}

// Returns the cut symbols of the program and adds them where they are missing. The first attention thus
// decides how many tokens make a block.
RowBlocks use_row_blocks(Fusion& f, const AttentionPattern& p, const Loc& loc) {
  Symbols& symbols = f.program.symbols;
  if (const std::optional<RowBlocks> known = step_symbols(symbols).blocks) return *known;
  const std::vector<Bounds> limits = symbol_bounds(symbols);
  const int64_t tokens = bounds(p.tokens, limits).hi, requests = bounds(p.requests, limits).hi,
                max_rows = std::max<int64_t>(1, kQueryTileRows * p.kv_heads / p.heads),
                max_blocks = std::min(tokens, (tokens + requests * (max_rows - 1)) / max_rows);
  const SymbolId count = symbols.add({kBlocksSymbol, {1, max_blocks}, loc, 0, {}, false, true});
  const auto list = [&](const char* name, Bounds elements, SymbolId sums = {}) {
    return symbols.add({name, elements, loc, symbol(count), sums, false, true});
  };
  const SymbolId rows = list(kBlockRowsSymbol, {1, max_rows});
  list(kBlockFirstRowSymbol, {0, tokens - 1}, rows);
  list(kBlockRequestSymbol, {0, requests - 1});
  list(kBlockKvLenSymbol, {1, p.context.constant()});
  return *step_symbols(symbols).blocks;
}

// Adds the cut symbol partial_positions where it is missing. A partial is always a KV tile with a window, or
// in a context of one KV tile; no symbol is needed then.
void use_partial_positions(Fusion& f, const AttentionPattern& p, const Loc& loc) {
  Symbols& symbols = f.program.symbols;
  if (p.window != 0 || p.context.constant() <= kKvTilePositions ||
      step_symbols(symbols).blocks->partial_positions.valid())
    return;
  symbols.add({kPartialPositionsSymbol, {kKvTilePositions, kKvChunkPositions}, loc, 0, {}, false, true});
}

enum class CacheUse { kStream, kRead, kWrite };
void access_caches(Fusion& f, GridId grid, OpId attention, CacheUse use) {
  const std::vector<TensorId>& inputs = f.graph.ops[attention].inputs;
  for (auto [role, cache] : {std::pair{"k_cache", inputs[1]}, {"v_cache", inputs[2]}}) {
    if (use == CacheUse::kWrite)
      f.write(grid, role, f.use(cache));
    else
      f.read(grid, role, f.use(cache), use == CacheUse::kStream);
  }
}

// Reads the keys and values of a block's rows, and the operands that turn keys into those of the cache.
void read_fresh(Fusion& f, GridId grid, const AttentionPattern& p) {
  f.read(grid, "k", f.use(p.k.x));
  f.read(grid, "v", f.use(p.v));
  if (p.k.rope.valid()) f.read(grid, "rope", f.use(f.graph.ops[p.k.rope].inputs[2]));
  read_head_norm(f, grid, "k_norm", "k_eps", p.k.norm);
}

// Adds a grid of tasks for key/value heads and blocks, with the attributes that all such grids have.
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

// Append writes all blocks of a request except its last one. Later blocks of the request read them, so append
// comes before any attention.
void add_append(Fusion& f, const AttentionPattern& p, const RowBlocks& blocks, OpId attention) {
  const GridId append = add_block_grid(f, p, BodyKind::kAppend, max(0, symbol(blocks.count) - p.requests),
                                       attention, in_order({p.k.norm, p.k.rope, p.kv_write}));
  read_fresh(f, append, p);
  access_caches(f, append, attention, CacheUse::kWrite);
}

// Adds the tensors in which attend leaves the partials of each row and from which combine merges them.
void hand_partials_over(Fusion& f, const AttentionPattern& p, GridId attend, GridId combine, const Expr& max,
                        const Loc& loc) {
  for (auto [role, width] : {std::pair{"partial_acc", p.head_dim}, {"partial_ml", int64_t{2}}}) {
    const TensorId tensor = f.add_activation(f.program.grids[attend].name + "." + role, DType::f32,
                                             {max, p.tokens, p.heads * width}, loc);
    f.write(attend, role, tensor);
    f.read(combine, role, tensor);
  }
}

// Describes an op of attention by the first of its own tensors.
std::string name_of_op(const OpGraph& graph, const Op& op) {
  const TensorId own = op.kind == OpKind::kKvWrite ? op.inputs[0] : op.outputs[0];
  const std::string place =
      op.loc.known() ? fmt::format(" at {}:{}:{}", op.loc.file, op.loc.line, op.loc.col) : "";
  return fmt::format("the {} of %{}{}", op_schema(op.kind).name, graph.tensors[own].name, place);
}

}  // namespace

Status check_caches(const Fusion& f) {
  std::map<std::pair<OpKind, uint32_t>, OpId> taken;  // by kind and cache
  for (const OpId id : f.graph.ops.ids()) {
    const Op& op = f.graph.ops[id];
    if (op.kind != OpKind::kAttention && op.kind != OpKind::kKvWrite) continue;
    const bool writes = op.kind == OpKind::kKvWrite;
    for (const TensorId cache :
         writes ? std::vector{op.outputs[0], op.outputs[1]} : std::vector{op.inputs[1], op.inputs[2]}) {
      const auto [first, added] = taken.emplace(std::pair(op.kind, cache.index), id);
      if (!added && first->second != id)
        return f.misfit(
            id, fmt::format("its cache %{} has {}, expected one {} for a cache", f.tensor(cache).name,
                            name_of_op(f.graph, f.graph.ops[first->second]), op_schema(op.kind).name));
    }
  }
  return {};
}

Status fuse_attention(Fusion& f, OpId attention) {
  Result<AttentionPattern> matched = match(f, attention);
  if (!matched.ok()) return matched.error();
  const AttentionPattern& p = matched.value();
  const Op& op = f.graph.ops[attention];
  const RowBlocks blocks = use_row_blocks(f, p, op.loc);
  use_partial_positions(f, p, op.loc);
  const ContextPartials partials = context_partials(f.program, p.window);
  add_append(f, p, blocks, attention);

  const GridId attend = add_block_grid(f, p, BodyKind::kAttend, symbol(blocks.count), attention,
                                       in_order({p.q.norm, p.q.rope, attention}));
  f.program.grids[attend].coords.push_back({"p", partials.count});
  f.read(attend, "q", f.use(p.q.x));
  read_fresh(f, attend, p);
  read_head_norm(f, attend, "q_norm", "q_eps", p.q.norm);
  for (const CacheUse use : {CacheUse::kStream, CacheUse::kRead, CacheUse::kWrite})
    access_caches(f, attend, attention, use);

  const TensorId out = f.use(op.outputs[0]);
  const GridId combine =
      add_block_grid(f, p, BodyKind::kCombine, symbol(blocks.count), attention, {attention});
  hand_partials_over(f, p, attend, combine, partials.max, op.loc);
  if (op.inputs.size() > 4) f.read(combine, "sinks", f.use_vector(op.inputs[4]));
  f.write(combine, "out", out);
  for (GridId grid : {attend, combine}) {
    Attrs& attrs = f.program.grids[grid].attrs;
    if (p.window != 0) set_attr(attrs, "window", p.window);
    if (grid == attend) set_attr(attrs, "scale", float_attr(op.attrs, "scale", 1));
  }
  return {};
}

}  // namespace mkc
