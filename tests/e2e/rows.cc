// These tests run families that no pattern of fusion fits whole. Row grids take the other ops, and logits are
// compared with those of the graph in float64.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "frontend/op_graph.h"
#include "tests/e2e/pipeline.h"
#include "tests/reference/distance.h"
#include "tests/reference/graph.h"
#include "tests/reference/rounding.h"
#include "tests/unit/temp_dir.h"

namespace mkc {
namespace {

using Weights = std::map<std::string, std::vector<double>>;

struct Case {
  std::string name;
  std::string ops;                   // ops of a layer, from x to x
  std::vector<std::string> unfused;  // expected row grids in order, of layers the first alone
  std::string head = "linear: {x: final, weight: embed, out: logits}";
  std::string outputs = "[logits, next]";
};

const std::string kProjections = R"(
    - rms_norm:  {x: x, weight: norm, out: h, eps: 1e-5}
    - linear:    {x: h, weight: wq, out: q}
    - linear:    {x: h, weight: wk, out: k}
    - linear:    {x: h, weight: wv, out: v})";
std::string attention(const char* q, const char* k) {
  return fmt::format(R"(
    - kv_write:  {{k: {}, v: v, positions: positions, k_cache: k_cache, v_cache: v_cache}}
    - attention:
        {{q: {}, k_cache: k_cache, v_cache: v_cache, positions: positions, out: attended, head_dim: 8, heads: 4, kv_heads: 2,
         scale: 0.35, window: 0}}
    - linear:    {{x: attended, weight: wo, out: o}})",
                     k, q);
}
const std::string kRoped = kProjections + R"(
    - rope:      {x: q, positions: positions, table: rope, out: q_roped, head_dim: 8}
    - rope:      {x: k, positions: positions, table: rope, out: k_roped, head_dim: 8})" +
                           attention("q_roped", "k_roped");
const std::string kGated = R"(
    - rms_norm:  {x: y, weight: post_norm, out: g, eps: 1e-5}
    - linear:    {x: g, weight: w_gate, out: gate}
    - linear:    {x: g, weight: w_up, out: up}
    - silu_mul:  {gate: gate, up: up, out: act}
    - linear:    {x: act, weight: w_down, out: down}
    - add:       {a: y, b: down, out: x})";
const std::string kResidual = R"(
    - add:       {a: x, b: o, out: y})";

std::string family_of(const std::string& ops, const std::string& head, const std::string& outputs) {
  return R"(family: rows
match:
  architectures: [RowsForCausalLM]
  model_types: [rows]
params:
  layers: {int: config.num_hidden_layers, min: 1, max: 64}
max_context: config.max_position_embeddings
rope:
  name: rope
  dim: 8
  theta: config.rope_theta
  original_context: config.max_position_embeddings
weights:
  embed: {name: embed.weight, shape: [100, 40]}
  final_norm: {name: norm.weight, shape: [40]}
layers:
  repeat: layers
  prefix: layers.{n}.
  weights:
    norm:       {name: norm.weight, shape: [40]}
    norm_bias:  {name: norm.bias, shape: [40]}
    post_norm:  {name: post_norm.weight, shape: [40]}
    wq:         {name: q.weight, shape: [32, 40]}
    wk:         {name: k.weight, shape: [16, 40]}
    wv:         {name: v.weight, shape: [16, 40]}
    wo:         {name: o.weight, shape: [40, 32]}
    q_norm:     {name: q_norm.weight, shape: [8]}
    wide_norm:  {name: wide_norm.weight, shape: [32]}
    w_gate:     {name: gate.weight, shape: [520, 40]}
    gate_bias:  {name: gate.bias, shape: [520]}
    w_up:       {name: up.weight, shape: [520, 40]}
    up_bias:    {name: up.bias, shape: [520]}
    w_down:     {name: down.weight, shape: [40, 520]}
  caches:
    k_cache: {shape: [2, context, 8]}
    v_cache: {shape: [2, context, 8]}
  ops:)" +
         ops + R"(
ops:
  - embed:       {tokens: tokens, table: embed, out: x}
  - layers
  - gather_rows: {x: x, out: wanted}
  - rms_norm:    {x: wanted, weight: final_norm, out: final, eps: 1e-5}
  - )" + head +
         R"(
  - sample:      {logits: logits, out: next}
outputs: )" +
         outputs + "\n";
}

const std::vector<std::pair<const char*, std::vector<size_t>>> kLayerWeights = {
    {"norm.weight", {40}},      {"norm.bias", {40}},       {"post_norm.weight", {40}},
    {"q.weight", {32, 40}},     {"k.weight", {16, 40}},    {"v.weight", {16, 40}},
    {"o.weight", {40, 32}},     {"q_norm.weight", {8}},    {"wide_norm.weight", {32}},
    {"gate.weight", {520, 40}}, {"gate.bias", {520}},      {"up.weight", {520, 40}},
    {"up.bias", {520}},         {"down.weight", {40, 520}}};

// Writes the checkpoint of two layers and returns its weights, rounded to the type.
Weights write_checkpoint(const std::string& directory, bool bf16) {
  std::vector<std::pair<std::string, std::vector<size_t>>> tensors = {{"embed.weight", {100, 40}},
                                                                      {"norm.weight", {40}}};
  for (int layer = 0; layer < 2; ++layer)
    for (const auto& [name, shape] : kLayerWeights)
      tensors.emplace_back(fmt::format("layers.{}.{}", layer, name), shape);
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  Weights weights;
  nlohmann::json header;
  std::string bytes;
  for (const auto& [name, shape] : tensors) {
    const size_t begin = bytes.size();
    size_t count = 1;
    for (const size_t n : shape) count *= n;
    const double scale = shape.size() == 1 ? 0.3 : 1.5 / std::sqrt(static_cast<double>(shape[1]));
    for (size_t i = 0; i < count; ++i) {
      double value = scale * normal(random) + (name.ends_with("norm.weight") ? 1 : 0);
      value = bf16 ? reference::to_bf16(value) : static_cast<double>(static_cast<float>(value));
      weights[name].push_back(value);
      const auto as_float = static_cast<float>(value);
      const uint16_t bits = reference::bf16_bits(value);
      bf16 ? bytes.append(reinterpret_cast<const char*>(&bits), 2)
           : bytes.append(reinterpret_cast<const char*>(&as_float), 4);
    }
    header[name] = {
        {"dtype", bf16 ? "BF16" : "F32"}, {"shape", shape}, {"data_offsets", {begin, bytes.size()}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t size = text.size();
  std::ofstream out(directory + "/model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&size), 8);
  out << text << bytes;
  REQUIRE(out.good());
  std::ofstream(directory + "/config.json") << R"({"architectures": ["RowsForCausalLM"], "vocab_size": 100,
    "num_hidden_layers": 2, "max_position_embeddings": 64, "rope_theta": 10000, "torch_dtype": ")"
                                            << (bf16 ? "bfloat16" : "float32") << "\"}";
  return weights;
}

const std::string kAttended = kRoped + kResidual;
const Case kCases[] = {
    {"patterns alone", kAttended + kGated, {}},
    {"attention without rotation", kProjections + attention("q", "k") + kResidual + kGated, {}},
    {"norms of heads without rotation",
     kProjections + R"(
    - head_norm: {x: q, weight: q_norm, out: q_normed, eps: 1e-5, head_dim: 8}
    - head_norm: {x: k, weight: q_norm, out: k_normed, eps: 1e-5, head_dim: 8})" +
         attention("q_normed", "k_normed") + kResidual + kGated,
     {}},
    {"queries alone are rotated, after a norm",
     kProjections + R"(
    - head_norm: {x: q, weight: q_norm, out: q_normed, eps: 1e-5, head_dim: 8}
    - rope:      {x: q_normed, positions: positions, table: rope, out: q_roped, head_dim: 8})" +
         attention("q_roped", "k") + kResidual + kGated,
     {"l0.q_roped"}},
    {"norms of whole rows before the rotation",
     kProjections + R"(
    - layer_norm: {x: q, weight: wide_norm, out: q_normed, eps: 1e-5}
    - rope:      {x: q_normed, positions: positions, table: rope, out: q_roped, head_dim: 8}
    - rope:      {x: k, positions: positions, table: rope, out: k_roped, head_dim: 8})" +
         attention("q_roped", "k_roped") + kResidual + kGated,
     {"l0.q_normed"}},
    {"a norm before the residual",
     kRoped + R"(
    - rms_norm:  {x: o, weight: post_norm, out: o_normed, eps: 1e-5}
    - add:       {a: x, b: o_normed, out: y})" +
         kGated,
     {"l0.y"}},
    {"biases of gate and up",
     kAttended + R"(
    - rms_norm:  {x: y, weight: post_norm, out: g, eps: 1e-5}
    - linear:    {x: g, weight: w_gate, bias: gate_bias, out: gate}
    - linear:    {x: g, weight: w_up, bias: up_bias, out: up}
    - gelu_tanh_mul: {gate: gate, up: up, out: act}
    - linear:    {x: act, weight: w_down, out: down}
    - add:       {a: y, b: down, out: x})",
     {"l0.act"}},
    {"an activation without gate, and a norm with a mean",
     kAttended + R"(
    - layer_norm: {x: y, weight: post_norm, bias: norm_bias, out: g, eps: 1e-5}
    - linear:    {x: g, weight: w_up, bias: up_bias, out: up}
    - gelu:      {x: up, out: act}
    - linear:    {x: act, weight: w_down, out: down}
    - add:       {a: y, b: down, out: x})",
     {"l0.g", "l0.act"}},
    {"an activation that is its own gate",
     kAttended + R"(
    - linear:    {x: y, weight: w_up, bias: up_bias, out: up}
    - silu_mul:  {gate: up, up: up, out: act}
    - linear:    {x: act, weight: w_down, out: down}
    - add:       {a: y, b: down, out: x})",
     {"l0.act"}},
    {"attention and feed-forward layer beside each other",
     kRoped + R"(
    - linear:    {x: h, weight: w_up, out: up}
    - gelu_tanh: {x: up, out: act}
    - linear:    {x: act, weight: w_down, out: down}
    - add:       {a: o, b: down, out: both}
    - add:       {a: x, b: both, out: x})",
     {"l0.act", "l0.x"}},
    {"every step, and more than a grid has",
     kAttended + R"(
    - linear:    {x: y, weight: w_up, out: up}
    - linear:    {x: y, weight: w_gate, out: gate}
    - clamp:     {x: gate, out: clamped, min: -1.5, max: 2}
    - sigmoid:   {x: clamped, out: opened}
    - scale:     {x: up, out: scaled, by: 1.7}
    - silu:      {x: scaled, out: act0}
    - mul:       {a: opened, b: act0, out: act1}
    - soft_cap:  {x: act1, out: act, cap: 0.8}
    - linear:    {x: act, weight: w_down, out: down}
    - add:       {a: y, b: down, out: x})",
     {"l0.clamped", "l0.act0", "l0.act"}},
    {"a norm and a sum that are outputs",
     kAttended + kGated,
     {"final"},
     "linear: {x: final, weight: embed, out: logits}",
     "[final, logits, next]"},
    {"logits of a soft cap",
     kAttended + kGated,
     {"logits.best"},
     "linear: {x: final, weight: embed, out: raw}\n  - scale: {x: raw, out: scaled, by: 0.5}\n"
     "  - soft_cap: {x: scaled, out: logits, cap: 3}"},
    {"logits that are read twice",
     kAttended + kGated,
     {"twice", "logits.best"},
     "linear: {x: final, weight: embed, out: logits}\n  - scale: {x: logits, out: twice, by: 2}",
     "[twice, logits, next]"},
};

struct Compiled {
  OpGraph graph;
  Weights weights;
  test::Model model;
};

Compiled compiled(const Case& c, bool bf16, Scheduler scheduler) {
  const mkrt::test::TempDir dir;
  Weights weights = write_checkpoint(dir.path, bf16);
  std::ofstream(dir.path + "/family.yaml") << family_of(c.ops, c.head, c.outputs);
  const std::string file = dir.path + "/model.yaml";
  std::ofstream(file) << "checkpoint: .\nfamily: family.yaml\nlimits: {tokens: 16, context: 64}\n";
  const ModelRequest request{file, {}, "", Mode::kMegakernel};
  const Result<Compilation> opened = open_model(request, true);
  REQUIRE_MESSAGE(opened.ok(), opened.error().message);
  Result<OpGraph> graph = build_op_graph(opened.value().request, {});
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  test::Model model(file, {.workers = 3, .race = true, .max_tokens = 6, .scheduler = scheduler});
  return {std::move(graph.value()), std::move(weights), std::move(model)};
}

// Returns the names of the row grids of the first layer, and of those without a layer.
std::vector<std::string> row_grids(const Schedule& schedule) {
  std::vector<std::string> names;
  for (const TaskGrid& grid : schedule.program.grids)
    if (grid.body == BodyKind::kRow && grid.layer <= 0) names.push_back(grid.name);
  return names;
}

TEST_CASE("what no pattern holds runs as row grids, and logits are those of the graph in float64") {
  for (const Case& c : kCases)
    for (const bool bf16 : {false, true}) {
      CAPTURE(c.name);
      CAPTURE(bf16);
      const Compiled made = compiled(c, bf16, bf16 ? Scheduler::kDynamic : Scheduler::kStatic);
      CHECK(fmt::format("{}", fmt::join(row_grids(made.model.schedule()), " ")) ==
            fmt::format("{}", fmt::join(c.unfused, " ")));
      std::vector<int32_t> ids = test::prompt_of(11, 100);
      const test::Model::Output out = made.model.generate(ids, 3);
      ids.insert(ids.end(), out.tokens.begin(), out.tokens.end() - 1);
      const reference::Rows exact = reference::values_of(made.graph, made.weights, ids).at("logits");
      REQUIRE(out.logits.size() == exact.size() * 100);
      for (size_t t = 0; t < exact.size(); ++t) {
        CAPTURE(t);
        const reference::Distance d = reference::row_distance(out.logits.data() + t * 100, exact[t]);
        CHECK(d.relative < (bf16 ? 0.03 : 2e-5));
      }
      for (size_t i = 0; i < out.tokens.size(); ++i) {
        const float* row = out.logits.data() + (10 + i) * 100;
        CHECK(out.tokens[i] == std::max_element(row, row + 100) - row);
      }
    }
}

}  // namespace
}  // namespace mkc
