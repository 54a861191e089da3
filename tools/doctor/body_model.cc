#include "tools/doctor/body_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "runtime/base/half.h"

namespace mkc {
namespace {

// Returns the bits of a number in a type, and the number that these bits are.
std::pair<uint32_t, double> in_type(float value, const std::string& dtype) {
  if (dtype == "float32") return {std::bit_cast<uint32_t>(value), value};
  if (dtype == "float16") {
    const uint32_t bits = mkrt::f32_to_f16(value);
    return {bits, mkrt::f16_to_f32(bits)};
  }
  const uint32_t bits = mkrt::f32_to_bf16(value);
  return {bits, mkrt::bf16_to_f32(bits)};
}

size_t bytes_of_dtype(const std::string& dtype) {
  return dtype == "float32" ? 4 : 2;
}

}  // namespace

BodyModel::BodyModel(const std::string& config, uint64_t seed) {
  const nlohmann::json c = nlohmann::json::parse(config);
  body_ = c.at("body"), dtype_ = c.at("torch_dtype");
  vocab_ = c.at("vocab_size"), hidden_ = c.at("hidden_size"), ffn_ = c.at("intermediate_size");
  heads_ = c.at("num_attention_heads"), kv_heads_ = c.at("num_key_value_heads"), head_dim_ = c.at("head_dim");
  eps_ = c.at("rms_norm_eps"), theta_ = c.at("rope_theta");
  make_weight("embed", vocab_, hidden_, ++seed);
  make_weight("head", vocab_, hidden_, ++seed);
  make_weight("q", heads_ * head_dim_, hidden_, ++seed);
  make_weight("k", kv_heads_ * head_dim_, hidden_, ++seed);
  make_weight("v", kv_heads_ * head_dim_, hidden_, ++seed);
  make_weight("o", hidden_, heads_ * head_dim_, ++seed);
  if (body_ == "product") make_weight("mix", hidden_, hidden_, ++seed);
  if (body_ == "norm") make_weight("norm", 0, hidden_, ++seed);
  if (body_ != "gated") return;
  make_weight("gate_proj", ffn_, hidden_, ++seed);
  make_weight("up", ffn_, hidden_, ++seed);
  make_weight("down", hidden_, ffn_, ++seed);
}

// Makes a matrix, or a vector for 0 rows. Products keep the size of what they are given.
void BodyModel::make_weight(const std::string& name, size_t rows, size_t cols, uint64_t seed) {
  Weight& w = weights_[name];
  w.vector = rows == 0, w.rows = std::max<size_t>(rows, 1), w.cols = cols;
  const double mean = w.vector ? 1 : 0;
  const double deviation = w.vector ? 0.1 : name == "embed" ? 1 : 1 / std::sqrt(static_cast<double>(cols));
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(mean, deviation);
  const size_t size = bytes_of_dtype(dtype_);
  w.bytes.resize(w.rows * cols * size);
  for (size_t i = 0; i < w.rows * cols; ++i) {
    const auto [bits, value] = in_type(static_cast<float>(normal(random)), dtype_);
    std::memcpy(w.bytes.data() + i * size, &bits, size);
    w.values.push_back(value);
  }
}

mkrt::Checkpoint BodyModel::checkpoint() const {
  const std::map<std::string, const char*> names{
      {"bfloat16", "BF16"}, {"float16", "F16"}, {"float32", "F32"}};
  mkrt::Checkpoint c;
  c.directory = "body " + body_;
  for (const auto& [name, w] : weights_) {
    const auto cols = static_cast<int64_t>(w.cols);
    const std::vector<int64_t> shape =
        w.vector ? std::vector<int64_t>{cols} : std::vector<int64_t>{static_cast<int64_t>(w.rows), cols};
    c.tensors.push_back({name, names.at(dtype_), shape, c.directory, w.bytes});
  }
  return c;
}

BodyModel::Rows BodyModel::times(const Rows& x, const std::string& name) const {
  const Weight& w = weights_.at(name);
  Rows y(x.size() / w.cols * w.rows);
  for (size_t t = 0; t < x.size() / w.cols; ++t)
    for (size_t r = 0; r < w.rows; ++r) {
      const double *a = &x[t * w.cols], *b = &w.values[r * w.cols];
      double sum = 0;
      for (size_t i = 0; i < w.cols; ++i) sum += a[i] * b[i];
      y[t * w.rows + r] = sum;
    }
  return y;
}

// Rotates the two halves of each head by angles that grow with the position.
void BodyModel::rotate(Rows& x, size_t heads) const {
  const size_t half = head_dim_ / 2, columns = heads * head_dim_;
  for (size_t t = 0; t < x.size() / columns; ++t)
    for (size_t h = 0; h < heads; ++h)
      for (size_t i = 0; i < half; ++i) {
        const double share = static_cast<double>(i) / static_cast<double>(half);
        const double angle = static_cast<double>(t) * std::pow(theta_, -share);
        double &a = x[t * columns + h * head_dim_ + i], &b = x[t * columns + h * head_dim_ + half + i];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle), a = turned;
      }
}

BodyModel::Rows BodyModel::attention(const Rows& x) const {
  Rows q = times(x, "q"), k = times(x, "k");
  const Rows v = times(x, "v");
  rotate(q, heads_), rotate(k, kv_heads_);
  const size_t tokens = x.size() / hidden_, query = heads_ * head_dim_, kv = kv_heads_ * head_dim_;
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim_));
  Rows attended(tokens * query);
  for (size_t t = 0; t < tokens; ++t)
    for (size_t h = 0; h < heads_; ++h) {
      const size_t of = t * query + h * head_dim_, from = h / (heads_ / kv_heads_) * head_dim_;
      std::vector<double> share(t + 1);
      for (size_t p = 0; p <= t; ++p)
        for (size_t i = 0; i < head_dim_; ++i) share[p] += scale * q[of + i] * k[p * kv + from + i];
      const double max = *std::ranges::max_element(share);
      double all = 0;
      for (double& s : share) all += s = std::exp(s - max);
      for (size_t p = 0; p <= t; ++p)
        for (size_t i = 0; i < head_dim_; ++i) attended[of + i] += share[p] / all * v[p * kv + from + i];
    }
  return times(attended, "o");
}

std::vector<double> BodyModel::logits(std::span<const int32_t> ids) const {
  Rows x;
  for (const int32_t id : ids) {
    const double* row = &weights_.at("embed").values[static_cast<size_t>(id) * hidden_];
    x.insert(x.end(), row, row + hidden_);
  }
  Rows y = attention(x);
  if (body_ == "product") y = times(y, "mix");
  if (body_ == "norm")
    for (size_t t = 0; t < ids.size(); ++t) {
      double squares = 0;
      for (size_t i = 0; i < hidden_; ++i) squares += y[t * hidden_ + i] * y[t * hidden_ + i];
      const double by = 1 / std::sqrt(squares / static_cast<double>(hidden_) + eps_);
      for (size_t i = 0; i < hidden_; ++i) y[t * hidden_ + i] *= by * weights_.at("norm").values[i];
    }
  if (body_ == "gated") {
    Rows act = times(y, "gate_proj");
    const Rows up = times(y, "up");
    for (size_t i = 0; i < act.size(); ++i) act[i] *= up[i] / (1 + std::exp(-act[i]));
    const Rows down = times(act, "down");
    for (size_t i = 0; i < y.size(); ++i) y[i] += down[i];
  }
  return times(y, "head");
}

}  // namespace mkc
