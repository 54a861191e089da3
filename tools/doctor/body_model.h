// A model of one body has random weights as a checkpoint, and its logits in float64. The float64 model is
// written from the definitions of the operators, as tools/gpu/bodies.py is.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/diag.h"
#include "runtime/artefact/safetensors.h"

namespace mkc {

class BodyModel {
 public:
  // Makes the weights of a model. Requires a config.json as of kBodyConfig, with a body and a dtype of
  // bfloat16, float16 or float32.
  BodyModel(const std::string& config, uint64_t seed);

  size_t vocab() const { return vocab_; }
  // Returns a view of the weights. The model must outlive it.
  mkrt::Checkpoint checkpoint() const;
  // Returns the logits of each token of one sequence, [ids, vocab].
  std::vector<double> logits(std::span<const int32_t> ids) const;

 private:
  struct Weight {
    size_t rows = 1, cols = 0;
    bool vector = false;
    std::vector<double> values;    // as the model's type holds them
    std::vector<std::byte> bytes;  // in the model's type
  };
  using Rows = std::vector<double>;  // [tokens, columns]

  void make_weight(const std::string& name, size_t rows, size_t cols, uint64_t seed);
  Rows times(const Rows& x, const std::string& name) const;
  Rows attention(const Rows& x) const;
  void rotate(Rows& x, size_t heads) const;

  std::string body_, dtype_;
  size_t vocab_ = 0, hidden_ = 0, ffn_ = 0, heads_ = 0, kv_heads_ = 0, head_dim_ = 0;
  double eps_ = 0, theta_ = 0;
  std::map<std::string, Weight> weights_;
};

}  // namespace mkc
