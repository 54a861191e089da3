#include "scheduler/tiling/fuse.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "ir/values.h"
#include "tests/unit/frontend/fixtures.h"

namespace mkc {
namespace {

using test::edited;
using test::graph_of;

const std::vector<std::string> kNames{"T",
                                      "B",
                                      "R",
                                      "q_len",
                                      "kv_len",
                                      "first_row",
                                      "blocks",
                                      "block_rows",
                                      "block_first_row",
                                      "block_request",
                                      "block_kv_len",
                                      "partial_positions"};

// Returns one grid a line, as "name body [extents] reads -> writes". Accesses are printed as role=tensor.
std::string grids_of(const TaskProgram& program) {
  std::string out;
  const auto list = [&](const std::vector<Access>& accesses) {
    for (const Access& a : accesses) out += fmt::format(" {}={}", a.role, program.tensors[a.tensor].name);
  };
  for (const TaskGrid& grid : program.grids) {
    out += fmt::format("{} {} [", grid.name, body_name(grid.body));
    std::vector<std::string> coords;
    for (const Coord& c : grid.coords) {
      out += (coords.empty() ? "" : ", ") + to_string(c.extent, kNames, coords);
      coords.push_back(c.name);
    }
    out += "]";
    list(grid.reads);
    out += " ->";
    list(grid.writes);
    out += "\n";
  }
  return out;
}

enum class Read { kAny, kStreamed, kWaitedFor };
std::string region_of(const TaskProgram& program, std::string_view grid, std::string_view role, bool writes,
                      Read read = Read::kAny) {
  for (const TaskGrid& g : program.grids) {
    if (g.name != grid) continue;
    std::vector<std::string> coords;
    for (const Coord& c : g.coords) coords.push_back(c.name);
    for (const Access& a : writes ? g.writes : g.reads) {
      if (a.role != role || (read != Read::kAny && a.stream != (read == Read::kStreamed))) continue;
      std::string out;
      for (const Range& r : a.region)
        out +=
            fmt::format("[{}:+{}]", to_string(r.offset, kNames, coords), to_string(r.size, kNames, coords));
      return out;
    }
  }
  return "none";
}

TaskProgram fused(const std::string& config) {
  const Result<OpGraph> graph = graph_of(config);
  REQUIRE(graph.ok());
  Result<TaskProgram> program = fuse(graph.value());
  REQUIRE_MESSAGE(program.ok(), program.error().message);
  return program.value();
}

TEST_CASE("a Llama step becomes one grid for each product, and three for attention") {
  CHECK(
      grids_of(fused(test::llama_config())) ==
      R"(embed embed [T] tokens=tokens table=embed.packed next_norm=l0.input_norm -> out=x x_bf16=x.x_bf16 sum_squares=x.sum_squares
l0.q product [2] x=x.x_bf16 weight=l0.q.packed sum_squares=x.sum_squares -> out=l0.q
l0.k product [1] x=x.x_bf16 weight=l0.k.packed sum_squares=x.sum_squares -> out=l0.k
l0.v product [1] x=x.x_bf16 weight=l0.v.packed sum_squares=x.sum_squares -> out=l0.v
l0.append append [2, max(0, blocks - B)] k=l0.k v=l0.v positions=positions rope=rope -> k_cache=l0.k_cache v_cache=l0.v_cache
l0.attend attend [2, blocks, block_kv_len[k] ceildiv 256] q=l0.q k=l0.k v=l0.v positions=positions rope=rope k_cache=l0.k_cache v_cache=l0.v_cache k_cache=l0.k_cache v_cache=l0.v_cache -> k_cache=l0.k_cache v_cache=l0.v_cache partial_acc=l0.attend.partial_acc partial_ml=l0.attend.partial_ml
l0.combine combine [2, blocks] partial_acc=l0.attend.partial_acc partial_ml=l0.attend.partial_ml -> out=l0.attended
l0.o product [2] x=l0.attended weight=l0.o.packed residual=x next_norm=l0.post_norm -> out=l0.y x_bf16=l0.y.x_bf16 sum_squares=l0.y.sum_squares
l0.gate_up product [6] x=l0.y.x_bf16 weight=l0.gate_up.packed sum_squares=l0.y.sum_squares -> out=l0.act
l0.down product [2] x=l0.act weight=l0.down.packed residual=l0.y next_norm=final_norm -> out=l0.x x_bf16=l0.x.x_bf16 sum_squares=l0.x.sum_squares
logits product [7] x=l0.x.x_bf16 weight=logits.packed sum_squares=l0.x.sum_squares -> out=logits best_value=logits.best_value best_index=logits.best_index
sample sample [B] logits=logits best_value=logits.best_value best_index=logits.best_index -> next=next
)");
}

TEST_CASE("what only products read is rounded in place, and f32 weights take f32 rows through their norms") {
  const auto dtype = [](const TaskProgram& program, const char* name) {
    const auto& tensors = program.tensors;
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
    return found == tensors.end() ? "none" : dtype_name(found->dtype);
  };
  const TaskProgram bf16 = fused(test::llama_config());
  for (const char* name : {"l0.attended", "l0.act", "l0.y.x_bf16"}) CHECK(dtype(bf16, name) == "bf16");
  for (const char* name : {"l0.q", "l0.y", "l0.x", "logits"}) CHECK(dtype(bf16, name) == "f32");
  for (const char* other : {"float32", "float16"}) {
    const TaskProgram program = fused(edited(test::llama_config(), "bfloat16", other));
    for (const char* name : {"l0.attended", "l0.act", "l0.y"}) CHECK(dtype(program, name) == "f32");
    CHECK(dtype(program, "l0.y.x_bf16") == "none");
    CHECK(region_of(program, "l0.gate_up", "norm", false) == "[0:+32]");
  }
}

TEST_CASE("every op of each family is part of a grid that keeps its place") {
  for (const std::string& config :
       {test::llama_config(), test::qwen2_config(), test::qwen3_config(), test::mistral_config()}) {
    const OpGraph graph = graph_of(config).value();
    const TaskProgram program = fused(config);
    std::vector<bool> seen(graph.ops.size(), false);
    for (const TaskGrid& grid : program.grids) {
      for (OpId op : grid.ops) seen[op.index] = true;
      CHECK(grid.loc == graph.ops[grid.ops.back()].loc);
    }
    for (OpId op : graph.ops.ids()) CHECK_MESSAGE(seen[op.index], op_schema(graph.ops[op].kind).name);
  }
}

TEST_CASE("strips end with the weight and tied embeddings share one packed tensor") {
  const TaskProgram program =
      fused(edited(edited(test::llama_config(), "\"vocab_size\": 100", "\"vocab_size\": 1009"),
                   "\"torch_dtype\"", "\"tie_word_embeddings\": true, \"torch_dtype\""));
  CHECK(region_of(program, "logits", "weight", false) == "[16*j:+min(16, 1009 - 16*j)][0:+32]");
  CHECK(region_of(program, "logits", "out", true) == "[0:+R][16*j:+min(16, 1009 - 16*j)]");
  CHECK(region_of(program, "sample", "logits", false) ==
        "[b:+first_row[b] + min(q_len[b], R - first_row[b]) - b][0:+1009]");
  CHECK(region_of(program, "l0.gate_up", "out", true) == "[0:+T][8*j:+8]");
  const auto operand = [&](uint32_t grid, size_t i) { return program.grids[GridId{grid}].reads[i].tensor; };
  CHECK(operand(0, 1) == operand(program.grids.size() - 2, 1));
}

TEST_CASE("biases and head norms are operands, vectors of weights are f32") {
  const TaskProgram qwen2 = fused(test::qwen2_config());
  CHECK(region_of(qwen2, "l0.k", "bias", false) == "[16*j:+16]");
  const TaskProgram qwen3 = fused(test::qwen3_config());
  CHECK(region_of(qwen3, "l0.attend", "k_norm", false) == "[0:+16]");
  for (const TaskProgram* program : {&qwen2, &qwen3})
    for (const Tensor& t : program->tensors)
      if (t.kind == TensorKind::kWeight) CHECK((t.dtype == DType::f32) == (t.shape.size() == 1));
}

// kEarlier is the first position of a request's rows in the step. kWritten is the first position that attend
// writes by itself.
const std::string kRequest = "min(block_request[k], B - 1)",
                  kEarlier = "kv_len[" + kRequest + "] - q_len[" + kRequest + "]",
                  kWritten = "min(block_kv_len[k], kv_len[" + kRequest + "] - (1 + (q_len[" + kRequest +
                             "] - 1) mod 8))";

TEST_CASE(
    "a request's last rows come into the cache by each piece, those before in blocks, and earlier ones "
    "stream") {
  const TaskProgram program = fused(test::llama_config());
  const std::string head = "[" + kRequest + ":+1][g:+1]", first = "max(0, block_kv_len[k] - block_rows[k])",
                    appended = "max(256*p, " + kEarlier + ")", own = "max(256*p, " + kWritten + ")";
  CHECK(region_of(program, "l0.append", "k_cache", true) ==
        head + "[" + first + ":+block_kv_len[k] - " + first + "][0:+8]");
  CHECK(region_of(program, "l0.attend", "k_cache", false, Read::kStreamed) ==
        head + "[256*p:+min(256*p + 256, " + kEarlier + ") - 256*p][0:+8]");
  CHECK(region_of(program, "l0.attend", "k_cache", false, Read::kWaitedFor) ==
        head + "[" + appended + ":+min(256*p + 256, " + kWritten + ") - " + appended + "][0:+8]");
  CHECK(region_of(program, "l0.attend", "k_cache", true) ==
        head + "[" + own + ":+min(256*p + 256, block_kv_len[k]) - " + own + "][0:+8]");
  CHECK(region_of(program, "l0.combine", "partial_ml", false) ==
        "[0:+block_kv_len[k] ceildiv 256][block_first_row[k]:+min(block_rows[k], T - "
        "block_first_row[k])][4*g:+4]");
}

TEST_CASE("rows are cut into blocks of up to 16 queries of a head's group, each request's last block last") {
  const TaskProgram program = fused(test::llama_config());
  const std::optional<RowBlocks> blocks = step_symbols(program.symbols).blocks;
  REQUIRE(blocks);
  CHECK(blocks->max_rows == 8);
  const std::vector<int64_t> values =
      step_values(program.symbols, std::vector<StepRequest>{{17, 20}, {1, 9}, {8, 8}, {9, 60}});
  const auto list = [&](SymbolId id) {
    const auto begin = values.begin() + values[id.index];
    return std::vector<int64_t>(begin, begin + values[blocks->count.index]);
  };
  CHECK(list(blocks->request) == std::vector<int64_t>{0, 0, 3, 0, 1, 2, 3});
  CHECK(list(blocks->rows) == std::vector<int64_t>{8, 8, 8, 1, 1, 8, 1});
  CHECK(list(blocks->first_row) == std::vector<int64_t>{0, 8, 26, 16, 17, 18, 34});
  CHECK(list(blocks->kv_len) == std::vector<int64_t>{11, 19, 59, 20, 9, 8, 60});
}

TaskProgram fused_long(int64_t context, int64_t tokens) {
  ModelOptions options;
  options.context = context;
  options.max_tokens = tokens;
  const Result<OpGraph> graph = graph_of(edited(test::llama_config(), "\"max_position_embeddings\": 64",
                                                fmt::format("\"max_position_embeddings\": {}", context)),
                                         options);
  REQUIRE(graph.ok());
  return fuse(graph.value()).value();
}

TEST_CASE("in contexts of several pieces attention leaves parts that its step has slots for") {
  CHECK(!step_symbols(fused_long(256, 64).symbols).blocks->partial_positions.valid());
  const TaskProgram program = fused_long(131'072, 64);
  const std::string parts = "block_kv_len[k] ceildiv partial_positions";
  CHECK(grids_of(program).find("l0.attend attend [2, blocks, " + parts + "] ") != std::string::npos);
  CHECK(region_of(program, "l0.attend", "partial_ml", true) ==
        "[p:+min(1, 4096 floordiv T - p)][block_first_row[k]:+min(block_rows[k], T - block_first_row[k])]"
        "[4*g:+4]");
  CHECK(region_of(program, "l0.combine", "partial_ml", false) ==
        "[0:+min(" + parts +
            ", 4096 floordiv T)][block_first_row[k]:+min(block_rows[k], T - block_first_row[k])][4*g:+4]");
  CHECK(region_of(program, "l0.attend", "k_cache", true).find("[max(partial_positions*p, ") !=
        std::string::npos);
}

TEST_CASE("a part is a span where these keep all workers busy, or where there are no slots for pieces") {
  const Symbols symbols = fused_long(131'072, 64).symbols;  // blocks have 8 rows, and there are 4096 slots
  const auto part = [&](const std::vector<StepRequest>& step) { return partial_positions(symbols, step); };
  CHECK(part({{1, 15 * 2048}}) == 256);
  CHECK(part({{1, 15 * 2048 + 1}}) == 2048);
  CHECK(part(std::vector<StepRequest>(15, {1, 1})) == 256);
  CHECK(part(std::vector<StepRequest>(16, {1, 1})) == 2048);
  CHECK(part({{8, 7 * 2048}, {8, 7 * 2048}, {8, 300}}) == 256);
  CHECK(part({{8, 7 * 2048}, {8, 7 * 2048}, {9, 300}}) == 2048);
  const Symbols few = fused_long(4500, 8).symbols;  // there are 128 slots
  CHECK(partial_positions(few, std::vector<StepRequest>{{3, 4400}, {4, 4}}) == 256);
  CHECK(partial_positions(few, std::vector<StepRequest>{{3, 4400}, {5, 5}}) == 2048);
}

TEST_CASE("whatever a step, each of its rows has slots for its parts") {
  std::mt19937 random(1);
  const auto draw = [&](int64_t max) {
    return 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(max));
  };
  for (const int64_t context : {300, 4096, 40'960, 131'072, 1'000'000})
    for (const int64_t max_tokens : {1, 3, 64, 256}) {
      const Symbols symbols = fused_long(context, max_tokens).symbols;
      const int64_t slots = partial_slots(symbols);
      REQUIRE(slots % max_tokens == 0);
      for (int step = 0; step < 1000; ++step) {
        std::vector<StepRequest> requests;
        int64_t tokens = 0, longest = 0;
        for (int64_t left = draw(max_tokens); left > 0; left = max_tokens - tokens - draw(max_tokens)) {
          const int64_t kv_len = draw(context);
          requests.push_back({std::min(kv_len, draw(left)), kv_len});
          tokens += requests.back().rows;
          longest = std::max(longest, kv_len);
        }
        const int64_t part = partial_positions(symbols, requests);
        REQUIRE((longest + part - 1) / part <= slots / tokens);
      }
    }
}

// Returns the error of fusing a Llama graph after `change`.
template <class Candidate>
std::string error_after(Candidate change) {
  OpGraph graph = graph_of(test::llama_config()).value();
  for (Op& op : graph.ops) op.loc = {"m.yaml", 1, 1};
  change(graph);
  const Result<TaskProgram> program = fuse(graph);
  return program.ok() ? "" : program.error().message;
}

Op& op_of_kind(OpGraph& graph, OpKind kind) {
  for (Op& op : graph.ops)
    if (op.kind == kind) return op;
  MKC_BUG("no such op");
}

TEST_CASE("attention fits a task only where all of its operands belong together") {
  // Replaces one operand of one op by another tensor. `which` counts the ops of a kind.
  const auto with = [](OpKind kind, int which, size_t input, const char* tensor) {
    return error_after([&](OpGraph& g) {
      const auto wanted = std::find_if(g.tensors.items.begin(), g.tensors.items.end(),
                                       [&](const Tensor& t) { return t.name == tensor; });
      REQUIRE(wanted != g.tensors.items.end());
      int seen = 0;
      for (Op& op : g.ops)
        if (op.kind == kind && seen++ == which)
          op.inputs[input] = TensorId{static_cast<uint32_t>(wanted - g.tensors.items.begin())};
      REQUIRE(seen > which);
    });
  };
  const std::string positions =
      "m.yaml:1:1: error: attention fits no task: its queries and keys have different positions";
  CHECK(with(OpKind::kRope, 0, 1, "positions").empty());
  // A rotation by other positions becomes a row grid of its own.
  CHECK(with(OpKind::kRope, 0, 1, "tokens").empty());
  CHECK(with(OpKind::kRope, 1, 1, "tokens").empty());
  CHECK(with(OpKind::kKvWrite, 0, 2, "tokens") == positions);
  CHECK(with(OpKind::kAttention, 0, 3, "tokens") == positions);
  const std::string caches =
      "m.yaml:1:1: error: attention fits no task: no kv_write before it fills its caches";
  CHECK(with(OpKind::kAttention, 0, 1, "l0.v_cache") == caches);
  CHECK(with(OpKind::kAttention, 0, 2, "l0.k_cache") == caches);
  CHECK(with(OpKind::kAttention, 0, 1, "l0.q") == caches);
  CHECK(error_after([](OpGraph& g) {
          std::swap(op_of_kind(g, OpKind::kKvWrite), op_of_kind(g, OpKind::kAttention));
        }) == caches);
}

TEST_CASE("what a step's blocks may be is declared with its bounds") {
  OpGraph graph = graph_of(test::llama_config()).value();
  std::string found;
  const TaskProgram program = fuse(graph).value();
  for (const Symbol& s : program.symbols)
    found += fmt::format("{} [{}, {}]\n", s.name, s.bounds.lo, s.bounds.hi);
  // Blocks have 8 rows: 64 tokens of 16 requests are cut into at most 22 blocks.
  CHECK(found == R"(T [1, 64]
B [1, 16]
R [1, 64]
q_len [1, 64]
kv_len [1, 64]
first_row [0, 63]
blocks [1, 22]
block_rows [1, 8]
block_first_row [0, 63]
block_request [0, 15]
block_kv_len [1, 64]
)");
}

TEST_CASE("an op that fits no task is an error at its place") {
  CHECK(error_after([](OpGraph& g) {
          Op norm = op_of_kind(g, OpKind::kRmsNorm);
          norm.outputs[0] = g.tensors.add(Tensor{});
          norm.loc.line = 7;
          g.ops.add(norm);
        }) == "m.yaml:7:1: error: rms_norm fits no task: its rows have no constant number of columns");
  CHECK(error_after([](OpGraph& g) {
          Op write = op_of_kind(g, OpKind::kKvWrite);
          g.ops.add(write);
        }) == "m.yaml:1:1: error: attention fits no task: no kv_write before it fills its caches");
}

// Returns the row grids of a Llama graph after `change`, with their operands and the reasons for them.
template <class Candidate>
std::string row_grids_after(Candidate change) {
  OpGraph graph = graph_of(test::llama_config()).value();
  change(graph);
  std::map<std::string, std::string> unfused;
  const Result<TaskProgram> program = fuse(graph, {}, &unfused);
  if (!program.ok()) return program.error().message;
  std::string out;
  for (const TaskGrid& grid : program.value().grids) {
    CHECK(unfused.contains(grid.name) == (grid.body == BodyKind::kRow));
    if (grid.body != BodyKind::kRow) continue;
    out += grid.name + ":";
    for (const Access& a : grid.reads)
      out += fmt::format(" {}={}", a.role, program.value().tensors[a.tensor].name);
    out += "; " + unfused[grid.name] + "\n";
  }
  return out;
}

TEST_CASE("ops that no pattern holds become row grids, each with the reason") {
  CHECK(row_grids_after([](OpGraph&) {}) == "");
  CHECK(row_grids_after([](OpGraph& g) {
          g.tensors[op_of_kind(g, OpKind::kRope).outputs[0]].kind = TensorKind::kOutput;
        }) ==
        "l0.q_roped: x=l0.q positions=positions rope=rope; no attention takes queries and keys with the same "
        "positions "
        "and table from it\n"
        "l0.k_roped: x=l0.k positions=positions rope=rope; no attention takes queries and keys with the same "
        "positions "
        "and table from it\n");
  CHECK(row_grids_after([](OpGraph& g) {
          Op& add = op_of_kind(g, OpKind::kAdd);
          add.inputs[1] = add.inputs[0];
        }) ==
        "l0.y: x=x operand0=x next_norm=l0.post_norm; neither operand is a linear's result that nothing else "
        "reads\n");
  CHECK(row_grids_after([](OpGraph& g) {
          op_of_kind(g, OpKind::kAdd).inputs[0] = op_of_kind(g, OpKind::kRmsNorm).outputs[0];
        }) == "l0.h: x=x norm=l0.input_norm; not only products read its result\n");
}

TEST_CASE("attention with a window walks only the pieces that a block's first token can see") {
  const std::string config =
      edited(test::mistral_config(), "\"sliding_window\": null", "\"sliding_window\": 32");
  const TaskProgram program = fused(config);
  const std::string first = "max(0, block_kv_len[k] - block_rows[k] + 1 - 32) floordiv 256",
                    begin = "256*(" + first + " + p)", own = "max(" + begin + ", " + kWritten + ")",
                    pieces = "min(1, max(1, block_kv_len[k] ceildiv 256 - " + first + "))";
  CHECK(grids_of(program).find("l0.attend attend [2, blocks, " + pieces + "] ") != std::string::npos);
  CHECK(region_of(program, "l0.attend", "k_cache", true) == "[" + kRequest + ":+1][g:+1][" + own + ":+min(" +
                                                                begin + " + 256, block_kv_len[k]) - " + own +
                                                                "][0:+8]");
  CHECK(region_of(program, "l0.combine", "partial_acc", false) ==
        "[0:+" + pieces + "][block_first_row[k]:+min(block_rows[k], T - block_first_row[k])][16*g:+16]");
  // A window that reaches past the cache is no window.
  CHECK(fused(edited(test::mistral_config(), "\"sliding_window\": null", "\"sliding_window\": 64")).grids ==
        fused(test::mistral_config()).grids);
}

// Returns the largest number of KV tiles that the rows of a block look at, over all lengths of the request.
int64_t max_looked_at(int64_t context, int64_t window, int64_t max_rows) {
  int64_t max = 0;
  for (int64_t length = 1; length <= context; ++length)
    for (int64_t rows = 1; rows <= std::min(length, max_rows); ++rows)
      max = std::max(max, (length - 1) / 256 - std::max<int64_t>(0, length - rows + 1 - window) / 256 + 1);
  return max;
}

TEST_CASE("attention with a window has parts for the pieces that it can look at, not for the context") {
  const std::string longer =
      edited(test::mistral_config(), "\"max_position_embeddings\": 64", "\"max_position_embeddings\": 4096");
  for (const int64_t window : {1, 2, 193, 194, 195, 600, 3900, 4000}) {
    CAPTURE(window);
    const TaskProgram program =
        fused(edited(longer, "\"sliding_window\": null", fmt::format("\"sliding_window\": {}", window)));
    const int64_t max_rows = step_symbols(program.symbols).blocks->max_rows;
    for (const Tensor& tensor : program.tensors)
      if (tensor.name == "l0.attend.partial_acc")
        CHECK(tensor.shape[0].constant() == max_looked_at(4096, window, max_rows));
  }
  const TaskProgram program = fused(edited(longer, "\"sliding_window\": null", "\"sliding_window\": 600"));
  CHECK(grids_of(program).find("l0.attend attend [2, blocks, min(4, max(1, block_kv_len[k] ceildiv 256 - ") !=
        std::string::npos);
}

}  // namespace
}  // namespace mkc
