// The families' architectures in float64, written from their definitions: what mkc's results are held
// against. Nothing here is shared with mkc: it has its own reading and writing of checkpoints.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace reference {

enum class Type { kF32, kF16, kBf16 };
const char* type_name(Type t);  // "float32", "float16", "bfloat16", as config.json says it

struct Shape {
  std::string family = "llama";  // llama, seed_oss, qwen2, qwen3, mistral, qwen3_moe, mixtral
  int hidden = 64, heads = 4, kv_heads = 2, head_dim = 16, layers = 2, ffn = 96, vocab = 100;
  int context = 128;
  Type type = Type::kF32;
  bool tied = false;
  std::string act = "silu";   // hidden_act: silu, gelu, gelu_pytorch_tanh
  bool llama3_rope = false;   // the frequencies of Llama 3.1
  bool yarn_rope = false;     // those of the seed_oss fixture
  int window = 0;             // positions that a token sees, its own included; 0: all
  int window_from = 0;        // of qwen2 and qwen3: the first layer with the window
  bool e4m3_weights = false;  // layers' products, routers aside, have 8-bit weights with a scale for each row
  bool e4m3_cache = false;    // keys and values are kept as 8-bit floats, with scales in the checkpoint
  double rope_theta = 10000, eps = 1e-5;

  // Of qwen3_moe and mixtral: a router chooses top_k of the experts for each token.
  int experts = 0, top_k = 2;
  // Of qwen3_moe alone. Mixtral's experts are of width ffn, their shares add up to 1, every layer has them.
  int expert_ffn = 40;
  bool norm_top_k = true;         // the shares of the chosen are made to add up to 1
  int sparse_step = 1;            // every sparse_step-th layer has experts,
  std::vector<int> dense_layers;  // but these have none
};
bool has_experts(const Shape& shape, int layer);

// Weights by their checkpoint names, row-major, already rounded to the model's type.
struct Model {
  Shape shape;
  std::map<std::string, std::vector<double>> weights;
};

// Normal weights, scaled so that logits are of order one. The same seed gives the same model. `pull`: draws
// every token towards an expert, or away from it where negative; 8 and more decide its choice.
Model random_model(const Shape& shape, uint64_t seed, const std::vector<double>& pull = {});

// Writes config.json and model.safetensors, or `shards` files with an index.
void write_checkpoint(const Model& model, const std::string& directory, int shards = 1);

// Reads what write_checkpoint or transformers wrote. Ends the test where it cannot.
Model read_checkpoint(const std::string& directory);

// How an honest engine of a precision computes: activations are rounded at the inputs and outputs of
// products, and keys and values as the cache keeps them.
enum class Rounding { kNone, kF16, kBf16 };

// What a router chose for a token in a layer.
struct Routing {
  std::vector<int> experts;    // the greatest probabilities first, the lowest expert on ties
  std::vector<double> shares;  // of the experts' sum
  double margin = 0;           // of the last chosen logit over the first that was not
};

// Logits [ids.size()][vocab] of a causal pass over the ids. `routings`: gets what each token's routers chose,
// [ids.size()][layer that has experts].
std::vector<std::vector<double>> logits_of(const Model& model, const std::vector<int32_t>& ids,
                                           Rounding rounding = Rounding::kNone,
                                           std::vector<std::vector<Routing>>* routings = nullptr,
                                           Rounding cache = Rounding::kNone);

}  // namespace reference
