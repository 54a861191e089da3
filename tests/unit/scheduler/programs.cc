#include "tests/unit/scheduler/programs.h"

#include "scheduler/proof/prove.h"

namespace mkc::test {
namespace {

template <class Key, class T>
Key find(const Table<Key, T>& table, std::string_view name) {
  for (Key id : table.ids())
    if (table[id].name == name) return id;
  MKC_BUG("no '" + std::string(name) + "' in the test program");
}

struct Builder {
  ModelShape shape;
  TaskProgram program{};
  Expr tokens{}, kv_len{};
  std::string layer{};  // prefix of names
  int32_t layer_index = -1;

  TensorId tensor(const std::string& name, TensorKind kind, DType dtype, std::vector<Expr> dims) {
    Tensor t;
    t.name = name;
    t.kind = kind;
    t.dtype = dtype;
    t.shape = std::move(dims);
    return program.tensors.add(t);
  }
  TensorId activation(const std::string& name, Expr cols) {
    return tensor(layer + name, TensorKind::kActivation, DType::f32, {tokens, std::move(cols)});
  }
  TensorId packed_weight(const std::string& name, int64_t rows, int64_t cols) {
    const TensorId source = tensor(layer + name, TensorKind::kWeight, DType::bf16, {rows, cols});
    const TensorId packed = tensor(layer + name + ".packed", TensorKind::kWeight, DType::bf16, {rows, cols});
    program.tensors[packed].packing.sources = {source};
    return packed;
  }
  EventId event(const std::string& name, std::vector<Expr> dims, Expr expect) {
    Event e;
    e.name = layer + name;
    e.dims = std::move(dims);
    e.expect = std::move(expect);
    return program.events.add(e);
  }
  GridId grid(const std::string& name, BodyKind body, std::vector<Coord> coords) {
    TaskGrid g;
    g.name = layer + name;
    g.body = body;
    g.coords = std::move(coords);
    g.layer = layer_index;
    return program.grids.add(g);
  }
  void read(GridId g, const char* role, TensorId t, Region region, bool stream = false) {
    program.grids[g].reads.push_back({role, t, std::move(region), stream});
  }
  void write(GridId g, const char* role, TensorId t, Region region) {
    program.grids[g].writes.push_back({role, t, std::move(region), false});
  }
  void wait(GridId g, EventId e, std::vector<Expr> cell = {}) {
    program.grids[g].waits.push_back({e, std::move(cell)});
  }
  void notify(GridId g, EventId e, Region cells = {}) {
    program.grids[g].notifies.push_back({e, std::move(cells)});
  }

  Region rows_and(Expr offset, Expr size) const {
    return {{0, tokens}, {std::move(offset), std::move(size)}};
  }

  // Adds a product of `rows` outputs over all columns of x. Each strip writes `out_cols` columns.
  GridId product(const std::string& name, TensorId x, int64_t rows, int64_t cols, TensorId out,
                 int64_t out_cols) {
    const Expr strips = ceil_div(rows, kTileRows);
    const GridId g = grid(name, BodyKind::kProduct, {{"j", strips}});
    read(g, "x", x, rows_and(0, cols));
    read(g, "weight", packed_weight("w_" + name, rows, cols), {{kTileRows * coord(0), kTileRows}, {0, cols}},
         true);
    write(g, "out", out, rows_and(out_cols * coord(0), out_cols));
    return g;
  }

  TensorId layer_grids(TensorId x, EventId x_ready);
  TensorId attention(TensorId q, TensorId k, TensorId v, EventId q_ready, EventId combined);
};

TensorId Builder::attention(TensorId q, TensorId k, TensorId v, EventId q_ready, EventId combined) {
  const auto& s = shape;
  const Expr pieces = ceil_div(kv_len, s.kv_tile);
  const int64_t group = s.heads / s.kv_heads;
  const TensorId k_cache =
      tensor(layer + "k_cache", TensorKind::kCache, DType::bf16, {s.kv_heads, s.context, s.head_dim});
  const TensorId v_cache =
      tensor(layer + "v_cache", TensorKind::kCache, DType::bf16, {s.kv_heads, s.context, s.head_dim});
  const TensorId part = tensor(layer + "partial_acc", TensorKind::kActivation, DType::f32,
                               {s.kv_heads, pieces, group * s.head_dim * tokens});
  const TensorId out = activation("attn", s.heads * s.head_dim);
  const EventId parts = event("parts", {s.kv_heads}, pieces);

  const GridId a = grid("attend", BodyKind::kAttend, {{"g", s.kv_heads}, {"p", pieces}});
  read(a, "q", q, rows_and(group * s.head_dim * coord(0), group * s.head_dim));
  for (auto [role, t] : {std::pair{"k", k}, {"v", v}})
    read(a, role, t, rows_and(s.head_dim * coord(0), s.head_dim));
  // A KV tile's positions before this step stream. Positions of this step are written.
  const Expr from = s.kv_tile * coord(1);
  const Expr to = min(from + s.kv_tile, kv_len);
  const Expr split = min(max(kv_len - tokens, from), to);
  for (auto [role, t] : {std::pair{"k_cache", k_cache}, {"v_cache", v_cache}}) {
    read(a, role, t, {{coord(0), 1}, {from, split - from}, {0, s.head_dim}}, true);
    write(a, role, t, {{coord(0), 1}, {split, to - split}, {0, s.head_dim}});
  }
  write(a, "partial_acc", part, {{coord(0), 1}, {coord(1), 1}, {0, group * s.head_dim * tokens}});
  wait(a, q_ready, {coord(0)});
  notify(a, parts, {{coord(0), 1}});

  const GridId c = grid("combine", BodyKind::kCombine, {{"g", s.kv_heads}});
  read(c, "partial_acc", part, {{coord(0), 1}, {0, pieces}, {0, group * s.head_dim * tokens}});
  write(c, "out", out, rows_and(group * s.head_dim * coord(0), group * s.head_dim));
  wait(c, parts, {coord(0)});
  notify(c, combined);
  return out;
}

TensorId Builder::layer_grids(TensorId x, EventId x_ready) {
  const auto& s = shape;
  const int64_t q_cols = s.heads * s.head_dim, kv_cols = s.kv_heads * s.head_dim;
  const int64_t group_cols = q_cols / s.kv_heads;
  const TensorId q = activation("q", q_cols), k = activation("k", kv_cols), v = activation("v", kv_cols);
  const EventId qkv_ready =
      event("qkv_ready", {s.kv_heads}, group_cols / kTileRows + 2 * (s.head_dim / kTileRows));
  for (auto [name, out, cols, per_head] : {std::tuple{"q", q, q_cols, group_cols},
                                           {"k", k, kv_cols, s.head_dim},
                                           {"v", v, kv_cols, s.head_dim}}) {
    const GridId g = product(name, x, cols, s.hidden, out, kTileRows);
    wait(g, x_ready);
    notify(g, qkv_ready, {{floor_div(coord(0), per_head / kTileRows), 1}});
  }
  const EventId combined = event("combined", {}, s.kv_heads);
  const TensorId attn = attention(q, k, v, qkv_ready, combined);

  const TensorId x2 = activation("x2", s.hidden), act = activation("act", s.feed_forward),
                 x3 = activation("x3", s.hidden);
  const EventId x2_ready = event("x2_ready", {}, ceil_div(s.hidden, kTileRows));
  const EventId act_ready = event("act_ready", {}, s.feed_forward / 8);
  const EventId x3_ready = event("x3_ready", {}, ceil_div(s.hidden, kTileRows));
  const GridId o = product("o", attn, s.hidden, q_cols, x2, kTileRows);
  read(o, "residual", x, rows_and(kTileRows * coord(0), kTileRows));
  wait(o, combined);
  notify(o, x2_ready);
  const GridId gate_up = product("gate_up", x2, 2 * s.feed_forward, s.hidden, act, 8);
  wait(gate_up, x2_ready);
  notify(gate_up, act_ready);
  const GridId down = product("down", act, s.hidden, s.feed_forward, x3, kTileRows);
  read(down, "residual", x2, rows_and(kTileRows * coord(0), kTileRows));
  wait(down, act_ready);
  notify(down, x3_ready);
  return x3;
}

}  // namespace

TaskProgram model_program(const ModelShape& s) {
  Builder b{s};
  b.program.name = "test";
  b.tokens = symbol(b.program.symbols.add({"T", {1, s.tokens}, {}}));
  b.kv_len = symbol(b.program.symbols.add({"kv_len", {1, s.context}, {}}));
  const TensorId ids = b.tensor("tokens", TensorKind::kInput, DType::i32, {b.tokens});
  const TensorId table = b.tensor("embedding", TensorKind::kWeight, DType::bf16, {s.vocab, s.hidden});
  TensorId x = b.activation("x0", s.hidden);
  const GridId embed = b.grid("embed", BodyKind::kEmbed, {{"t", b.tokens}});
  b.read(embed, "tokens", ids, {{coord(0), 1}});
  b.read(embed, "table", table, {{0, s.vocab}, {0, s.hidden}});
  b.write(embed, "out", x, {{coord(0), 1}, {0, s.hidden}});
  EventId ready = b.event("x0_ready", {}, b.tokens);
  b.notify(embed, ready);
  for (int64_t l = 0; l < s.layers; ++l) {
    b.layer = "l" + std::to_string(l) + ".";
    b.layer_index = static_cast<int32_t>(l);
    x = b.layer_grids(x, ready);
    ready = find_event(b.program, b.layer + "x3_ready");
  }
  b.layer = "";
  b.layer_index = -1;
  const TensorId logits = b.tensor("logits", TensorKind::kOutput, DType::f32, {b.tokens, s.vocab});
  const TensorId next = b.tensor("next", TensorKind::kOutput, DType::i32, {1});
  const GridId head = b.product("lm_head", x, s.vocab, s.hidden, logits, kTileRows);
  const EventId logits_ready = b.event("logits_ready", {}, ceil_div(s.vocab, kTileRows));
  b.wait(head, ready);
  b.notify(head, logits_ready);
  const GridId sample = b.grid("sample", BodyKind::kSample, {{"b", 1}});
  b.read(sample, "logits", logits, {{0, b.tokens}, {0, s.vocab}});
  b.write(sample, "next", next, {{coord(0), 1}});
  b.wait(sample, logits_ready);
  return b.program;
}

TaskProgram without_events(TaskProgram program) {
  program.events = {};
  for (TaskGrid& grid : program.grids) grid.waits.clear(), grid.notifies.clear();
  return program;
}

std::string refusal(const Schedule& schedule) {
  const Result<ProofReport> report = prove(schedule);
  if (report.ok() || report.error().message.starts_with("error: unproved: ")) return "";
  return report.error().message;
}

GridId find_grid(const TaskProgram& program, std::string_view name) {
  return find(program.grids, name);
}
TensorId find_tensor(const TaskProgram& program, std::string_view name) {
  return find(program.tensors, name);
}
EventId find_event(const TaskProgram& program, std::string_view name) {
  return find(program.events, name);
}

TaskProgram product_sequence(uint32_t grids, int64_t strips, int64_t cols) {
  TaskProgram p;
  p.symbols.add({"T", {1, 256}, {}});
  const Expr tokens = symbol(SymbolId{0});
  const auto tensor = [&](const std::string& name, TensorKind kind, DType dtype, std::vector<Expr> shape) {
    Tensor t;
    t.name = name;
    t.kind = kind;
    t.dtype = dtype;
    t.shape = std::move(shape);
    return p.tensors.add(t);
  };
  TensorId x = tensor("x0", TensorKind::kActivation, DType::f32, {tokens, cols});
  for (uint32_t i = 0; i < grids; ++i) {
    const std::string n = std::to_string(i);
    const TensorId source = tensor("w" + n, TensorKind::kWeight, DType::bf16, {16 * strips, cols});
    const TensorId weight = tensor("p" + n, TensorKind::kWeight, DType::bf16, {16 * strips, cols});
    p.tensors[weight].packing.sources = {source};
    const TensorId out =
        tensor("x" + std::to_string(i + 1), TensorKind::kActivation, DType::f32, {tokens, 16 * strips});
    TaskGrid g;
    g.name = "g" + n;
    g.coords = {{"j", strips}};
    g.reads = {{"x", x, {{0, tokens}, {0, cols}}, false},
               {"weight", weight, {{16 * coord(0), 16}, {0, cols}}, true}};
    g.writes = {{"out", out, {{0, tokens}, {16 * coord(0), 16}}, false}};
    if (i > 0) g.waits = {{EventId{i - 1}, {}}};
    if (i + 1 < grids) {
      g.notifies = {{EventId{i}, {}}};
      Event e;
      e.name = "e" + n;
      e.expect = strips;
      p.events.add(e);
    }
    p.grids.add(g);
    x = out;
  }
  return p;
}

}  // namespace mkc::test
