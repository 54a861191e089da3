// This reference computes the families' architectures in float64, from their definitions. Tests compare mkc's
// results with it. The reference shares no code with mkc, and reads and writes checkpoints by itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/reference/coding.h"

namespace reference {

using Rows = std::vector<std::vector<double>>;

enum class Type { kF32, kF16, kBf16 };
const char* type_name(Type t);  // name in config.json: "float32", "float16" or "bfloat16"

struct Shape {
  std::string family = "llama";  // llama, seed_oss, qwen2, qwen3, mistral, qwen3_moe, mixtral, gpt_oss
  int hidden = 64, heads = 4, kv_heads = 2, head_dim = 16, layers = 2, ffn = 96, vocab = 100;
  int context = 128;
  Type type = Type::kF32;
  bool tied = false;
  std::string act = "silu";  // hidden_act: silu, gelu, gelu_pytorch_tanh
  bool llama3_rope = false;  // the frequencies of Llama 3.1
  bool yarn_rope = false;    // the frequencies of the seed_oss fixture
  int window = 0;            // positions that a token sees, its own included, or 0 for all
  // The first layer with the window. All behind it have the window in qwen2 and qwen3, and every second in
  // gpt_oss.
  int window_from = 0;
  bool yarn_truncate = true;      // the ramp of YaRN is between whole indices
  Coding coding = Coding::kNone;  // of layers' products, routers aside
  int code_group = 0;             // columns that share a scale of integers; 0: all columns of a row
  int code_bits = 4;              // of integers
  bool code_zeros = false;        // integers have zero points
  bool plain_gates = false;       // gate_proj has no codes
  bool e4m3_cache = false;        // keys and values are kept as 8-bit floats, with scales in the checkpoint
  double rope_theta = 10000, eps = 1e-5;

  // Routers of qwen3_moe, mixtral and gpt_oss choose top_k of the experts for each token.
  int experts = 0, top_k = 2;
  // The fields below are those of gpt_oss.
  bool attention_bias = true;
  double sink_spread = 1.5;     // standard deviation of random sinks
  double gate_bias_spread = 3;  // standard deviation of random biases of gates, which the gates clamp at 7

  // The fields below are those of qwen3_moe. Experts of the others have width ffn, their routing weights add
  // up to 1, and every layer has experts.
  int expert_ffn = 40;
  bool norm_top_k = true;         // the chosen experts' routing weights add up to 1
  int sparse_step = 1;            // every sparse_step-th layer has experts
  std::vector<int> dense_layers;  // these layers have none
};
bool has_experts(const Shape& shape, int layer);
bool is_windowed(const Shape& shape, int layer);  // if the shape has a window

// Model holds weights by their checkpoint names, row-major, rounded to the model's type.
struct Model {
  Shape shape;
  std::map<std::string, std::vector<double>> weights;
  std::map<std::string, std::vector<double>> scales{};  // of matrices that the checkpoint has as codes
};

// Returns a model of normal weights, scaled so that logits are of order one. Equal seeds give equal models.
// `pull` draws every token towards an expert, or away from it if negative. A pull of 8 or more decides the
// choice.
Model random_model(const Shape& shape, uint64_t seed, const std::vector<double>& pull = {});

// Writes config.json and model.safetensors, or `shards` files with an index.
void write_checkpoint(const Model& model, const std::string& directory, int shards = 1);

// Reads a checkpoint of write_checkpoint() or of transformers. The test fails if it cannot be read.
Model read_checkpoint(const std::string& directory);

// Rounding is how an honest engine of a precision computes. The engine rounds the inputs and outputs of
// products, and keys and values as the cache keeps them. kFp8 is kBf16, but inputs of products with weights
// of codes are rounded to E4M3.
enum class Rounding { kNone, kF16, kBf16, kFp8 };

// Routing is what a router chose for a token in a layer.
struct Routing {
  std::vector<int> experts;             // most probable first, the lowest expert on ties
  std::vector<double> routing_weights;  // each expert's weight in the sum
  double margin = 0;                    // last chosen logit minus the first one not chosen
};

// Returns logits [ids.size()][vocab] of a causal pass over the ids. `routings` gets the choices of each
// token's routers, as [ids.size()][layer that has experts]. `cache` is how attention rounds keys, values,
// queries and weights.
Rows logits_of(const Model& model, const std::vector<int32_t>& ids, Rounding rounding = Rounding::kNone,
               std::vector<std::vector<Routing>>* routings = nullptr, Rounding cache = Rounding::kNone);

}  // namespace reference
