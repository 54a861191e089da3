#include "scheduler/tiling/fuse.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "ir/values.h"
#include "tests/unit/frontend/fixtures.h"
#include "tests/unit/scheduler/fused.h"

namespace mkc {
namespace {

using test::edited;
using test::fused;
using test::graph_of;
using test::grids_of;
using test::region_of;

TEST_CASE("a Llama step becomes one grid for each product, and three for attention") {
  CHECK(
      grids_of(fused(test::llama_config())) ==
      R"(embed embed [T] tokens=tokens table=embed.packed next_norm=l0.input_norm -> out=x x_bf16=x.x_bf16 sum_squares=x.sum_squares
l0.q product [2] x=x.x_bf16 weight=l0.q.packed sum_squares=x.sum_squares -> out=l0.q
l0.k product [1] x=x.x_bf16 weight=l0.k.packed sum_squares=x.sum_squares -> out=l0.k
l0.v product [1] x=x.x_bf16 weight=l0.v.packed sum_squares=x.sum_squares -> out=l0.v
l0.append append [2, max(0, blocks - B)] k=l0.k v=l0.v rope=rope -> k_cache=l0.k_cache v_cache=l0.v_cache
l0.attend attend [2, blocks, block_kv_len[k] ceildiv 256] q=l0.q k=l0.k v=l0.v rope=rope k_cache=l0.k_cache v_cache=l0.v_cache k_cache=l0.k_cache v_cache=l0.v_cache -> k_cache=l0.k_cache v_cache=l0.v_cache partial_acc=l0.attend.partial_acc partial_ml=l0.attend.partial_ml
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
        }) ==
        "m.yaml:1:1: error: kv_write fits no task: its cache %l0.k_cache has the kv_write of %l0.k_roped at "
        "m.yaml:1:1, expected one kv_write for a cache");
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

}  // namespace
}  // namespace mkc
