#include "tests/reference/model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "tests/reference/rounding.h"

namespace reference {
namespace {

using Vector = std::vector<double>;

double round_to(double value, Rounding rounding) {
  if (rounding == Rounding::kF16) return to_f16(value);
  if (rounding == Rounding::kBf16 || rounding == Rounding::kFp8) return to_bf16(value);
  return value;
}

Vector rounded(Vector v, Rounding rounding) {
  for (double& x : v) x = round_to(x, rounding);
  return v;
}

// Rounds columns to E4M3, 64 at a time, scaled by a power of 2.
Vector rounded_to_fp8(Vector v) {
  for (size_t begin = 0; begin < v.size(); begin += 64) {
    const auto first = v.begin() + static_cast<std::ptrdiff_t>(begin),
               last = v.begin() + static_cast<std::ptrdiff_t>(std::min(v.size(), begin + 64));
    double max = 0;
    for (auto x = first; x != last; ++x) max = std::max(max, std::abs(*x));
    const double scale = max == 0 ? 1 : std::exp2(7 - std::floor(std::log2(max)));
    for (auto x = first; x != last; ++x) *x = to_e4m3(*x * scale) / scale;
  }
  return v;
}

// Returns the products of a vector with N others. Several sums of each go side by side, as each addition
// waits for the one before.
template <size_t N>
std::array<double, N> dots(const double* w, const std::array<const double*, N>& xs, size_t count) {
  constexpr size_t kBeside = 8;
  double sums[N][kBeside] = {};
  std::array<double, N> out{};
  size_t i = 0;
  for (; i + kBeside <= count; i += kBeside)
    for (size_t x = 0; x < N; ++x)
      for (size_t r = 0; r < kBeside; ++r) sums[x][r] += w[i + r] * xs[x][i + r];
  for (; i < count; ++i)
    for (size_t x = 0; x < N; ++x) out[x] += w[i] * xs[x][i];
  for (size_t x = 0; x < N; ++x) out[x] = std::accumulate(sums[x], sums[x] + kBeside, out[x]);
  return out;
}

// Adds factor times x to y.
void add_scaled(double* y, double factor, const double* x, size_t count) {
  for (size_t i = 0; i < count; ++i) y[i] += factor * x[i];
}

// Stores the products of a matrix with N vectors.
template <size_t N>
void multiply(const Vector& w, const Vector* xs, Vector* ys) {
  const size_t columns = xs->size();
  std::array<const double*, N> data;
  for (size_t x = 0; x < N; ++x) data[x] = xs[x].data();
  for (size_t n = 0; n < ys->size(); ++n) {
    const auto out = dots<N>(&w[n * columns], data, columns);
    for (size_t x = 0; x < N; ++x) ys[x][n] = out[x];
  }
}

// Returns the products of a matrix with vectors, four at a time: the matrix may be greater than a cache.
Rows products(const Vector& w, const Rows& xs) {
  Rows ys(xs.size(), Vector(w.size() / xs.front().size()));
  size_t x = 0;
  for (; x + 4 <= xs.size(); x += 4) multiply<4>(w, &xs[x], &ys[x]);
  for (; x < xs.size(); ++x) multiply<1>(w, &xs[x], &ys[x]);
  return ys;
}

// Returns W x + b of vectors x, with inputs and outputs rounded.
Rows linear(const Model& m, const std::string& name, Rows xs, Rounding rounding) {
  const Vector& w = m.weights.at(name + ".weight");
  const auto bias = m.weights.find(name + ".bias");
  for (Vector& x : xs) {
    x = rounded(std::move(x), rounding);
    if (rounding == Rounding::kFp8 && m.scales.contains(name + ".weight")) x = rounded_to_fp8(std::move(x));
  }
  Rows ys = products(w, xs);
  for (Vector& y : ys) {
    if (bias != m.weights.end())
      for (size_t n = 0; n < y.size(); ++n) y[n] += bias->second[n];
    y = rounded(std::move(y), rounding);
  }
  return ys;
}

// Computes RMSNorm (Zhang and Sennrich 2019): x / sqrt(mean(x^2) + eps) * w.
void rms_norm(double* x, size_t count, const Vector& w, double eps) {
  double squares = 0;
  for (size_t i = 0; i < count; ++i) squares += x[i] * x[i];
  const double scale = 1 / std::sqrt(squares / static_cast<double>(count) + eps);
  for (size_t i = 0; i < count; ++i) x[i] *= scale * w[i];
}

Rows rms_normed(Rows xs, const Vector& w, double eps) {
  for (Vector& x : xs) rms_norm(x.data(), x.size(), w, eps);
  return xs;
}

void add(Rows& xs, const Rows& ys) {
  for (size_t x = 0; x < xs.size(); ++x)
    for (size_t i = 0; i < xs[x].size(); ++i) xs[x][i] += ys[x][i];
}

constexpr double kYarnFactor = 4, kYarnOriginal = 32;

// Stretches frequencies by YaRN (Peng et al. 2023, section 3.2). The ramp lies between the indices of 32
// turns and of 1 turn, which most models round outwards.
void stretch_by_yarn(const Shape& s, Vector& f) {
  const auto index_of = [&](double turns) {
    return s.head_dim * std::log(kYarnOriginal / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(s.rope_theta));
  };
  const double first = index_of(32), last = index_of(1);
  const double low = std::max(s.yarn_truncate ? std::floor(first) : first, 0.0);
  const double high = std::min(s.yarn_truncate ? std::ceil(last) : last, s.head_dim - 1.0);
  for (size_t i = 0; i < f.size(); ++i) {
    const double kept = 1 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    f[i] = kept * f[i] + (1 - kept) * f[i] / kYarnFactor;
  }
}

// Returns the scale of cosines and sines. Scores are scaled by its square.
double rope_scale(const Shape& s) {
  return s.yarn_rope ? 0.1 * std::log(kYarnFactor) + 1 : 1;
}

// Returns the rotary frequencies (Su et al. 2021). Llama 3.1 stretches the slow ones.
Vector frequencies(const Shape& s) {
  Vector f(static_cast<size_t>(s.head_dim / 2));
  for (size_t i = 0; i < f.size(); ++i) {
    f[i] = std::pow(s.rope_theta, -2.0 * static_cast<double>(i) / s.head_dim);
    if (!s.llama3_rope) continue;
    constexpr double kFactor = 8, kLow = 1, kHigh = 4, kOriginal = 64;
    const double wavelength = 2 * std::numbers::pi / f[i];
    const double blend = (kOriginal / wavelength - kLow) / (kHigh - kLow);
    if (wavelength > kOriginal / kLow)
      f[i] /= kFactor;
    else if (wavelength > kOriginal / kHigh)
      f[i] = (1 - blend) * f[i] / kFactor + blend * f[i];
  }
  if (s.yarn_rope) stretch_by_yarn(s, f);
  return f;
}

// Rotates a head. Value i is paired with value i + head_dim / 2.
void rotate(double* head, int head_dim, const Vector& frequency, double position, double scale) {
  const size_t half = static_cast<size_t>(head_dim / 2);
  for (size_t i = 0; i < half; ++i) {
    const double a = head[i], b = head[i + half];
    const double c = scale * std::cos(position * frequency[i]), s = scale * std::sin(position * frequency[i]);
    head[i] = a * c - b * s;
    head[i + half] = b * c + a * s;
  }
}

// Norms the heads if the family does, and rotates them.
void prepare_heads(const Model& m, Vector& x, const std::string& norm, const Vector& frequency,
                   size_t position) {
  const auto size = static_cast<size_t>(m.shape.head_dim);
  for (size_t h = 0; h < x.size() / size; ++h) {
    if (m.weights.contains(norm)) rms_norm(&x[h * size], size, m.weights.at(norm), m.shape.eps);
    rotate(&x[h * size], m.shape.head_dim, frequency, static_cast<double>(position), rope_scale(m.shape));
  }
}

// Rounds keys or values as a cache of 8-bit floats does. All heads have one scale, or each head has its own.
void keep_e4m3(Vector& x, const Vector& scales, int head_dim) {
  for (size_t i = 0; i < x.size(); ++i) {
    const double scale = scales[scales.size() == 1 ? 0 : i / static_cast<size_t>(head_dim)];
    x[i] = to_e4m3(x[i] / scale) * scale;
  }
}

// Computes attention of one query row (Vaswani et al. 2017). Heads share keys and values (Ainslie et al.
// 2023) and see a window of positions (Jiang et al. 2023). A head's sink, if any, is a score without a value
// (Xiao et al. 2023; gpt-oss 2025).
// Weights are rounded before they are added up.
Vector attend(const Shape& s, size_t window, size_t position, const Vector& q, const Rows& keys,
              const Rows& values, const Vector* sinks, Rounding rounding) {
  Vector out(q.size());
  const auto size = static_cast<size_t>(s.head_dim);
  for (size_t h = 0; h < static_cast<size_t>(s.heads); ++h) {
    const size_t from = h / static_cast<size_t>(s.heads / s.kv_heads) * size;
    const size_t end = position + 1, first = window == 0 || end <= window ? 0 : end - window;
    Vector weight(end);
    const double sink = sinks ? (*sinks)[h] : -INFINITY;
    double greatest = sink, total = 0;
    for (size_t p = first; p < end; ++p) {
      weight[p] =
          dots<1>(&q[h * size], {&keys[p][from]}, size)[0] / std::sqrt(static_cast<double>(s.head_dim));
      greatest = std::max(greatest, weight[p]);
    }
    if (sinks) total = std::exp(sink - greatest);
    for (size_t p = first; p < end; ++p)
      total += weight[p] = round_to(std::exp(weight[p] - greatest), rounding);
    for (size_t p = first; p < end; ++p)
      add_scaled(&out[h * size], weight[p] / total, &values[p][from], size);
  }
  return out;
}

// Applies SiLU (Elfwing et al. 2017), or GELU by erf or tanh (Hendrycks and Gimpel 2016).
double activation(const std::string& act, double v) {
  if (act == "gelu") return v / 2 * (1 + std::erf(v / std::sqrt(2.0)));
  if (act == "gelu_pytorch_tanh")
    return v / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
  return v / (1 + std::exp(-v));
}

// Returns down(act(gate(x)) * up(x)) of vectors x (Shazeer 2020), by the names of the three weights.
Rows feed_forward(const Model& m, const std::string& gate_name, const std::string& up_name,
                  const std::string& down_name, const Rows& xs, Rounding rounding) {
  Rows gates = linear(m, gate_name, xs, rounding);
  const Rows ups = linear(m, up_name, xs, rounding);
  for (size_t x = 0; x < xs.size(); ++x)
    for (size_t i = 0; i < gates[x].size(); ++i)
      gates[x][i] = activation(m.shape.act, gates[x][i]) * ups[x][i];
  return linear(m, down_name, std::move(gates), rounding);
}

// Chooses the top_k experts of a softmax over all. Mixtral's softmax over the chosen experts equals weights
// that are made to add up to 1.
Routing route(const Shape& s, const Vector& logits) {
  Routing r;
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const double x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  });
  const auto logit = [&](int rank) { return logits[static_cast<size_t>(order[static_cast<size_t>(rank)])]; };
  double all = 0, chosen = 0;
  for (const double v : logits) all += std::exp(v - logit(0));
  for (int i = 0; i < s.top_k; ++i) chosen += std::exp(logit(i) - logit(0));
  const bool normed = s.norm_top_k || s.family != "qwen3_moe";
  for (int i = 0; i < s.top_k; ++i) {
    r.experts.push_back(order[static_cast<size_t>(i)]);
    r.routing_weights.push_back(std::exp(logit(i) - logit(0)) / (normed ? chosen : all));
  }
  r.margin = s.top_k < s.experts ? logit(s.top_k - 1) - logit(s.top_k) : INFINITY;
  return r;
}

// Returns row `expert` of x times a stacked matrix [experts, inputs, outputs], plus the expert's bias.
Vector stacked_linear(const Model& m, const std::string& name, size_t expert, const Vector& x,
                      Rounding rounding) {
  const Vector &w = m.weights.at(name), &bias = m.weights.at(name + "_bias");
  const Vector in = rounded(x, rounding);
  Vector y(bias.size() / static_cast<size_t>(m.shape.experts));
  const double* matrix = &w[expert * x.size() * y.size()];
  for (size_t k = 0; k < x.size(); ++k) add_scaled(y.data(), in[k], matrix + k * y.size(), y.size());
  for (size_t n = 0; n < y.size(); ++n) y[n] += bias[expert * y.size() + n];
  return rounded(std::move(y), rounding);
}

// Returns the output of an expert of gpt-oss (2025). Even columns are gates, odd ones up.
Vector gpt_oss_expert(const Model& m, const std::string& at, size_t expert, const Vector& x,
                      Rounding rounding) {
  constexpr double kLimit = 7, kGain = 1.702;
  const Vector both = stacked_linear(m, at + "gate_up_proj", expert, x, rounding);
  Vector act(both.size() / 2);
  for (size_t i = 0; i < act.size(); ++i) {
    const double gate = std::min(both[2 * i], kLimit), up = std::clamp(both[2 * i + 1], -kLimit, kLimit);
    act[i] = gate / (1 + std::exp(-kGain * gate)) * (up + 1);
  }
  return stacked_linear(m, at + "down_proj", expert, act, rounding);
}

// Returns the chosen experts' outputs, each times its routing weight (Shazeer et al. 2017). They are added in
// the order of the choice.
Vector mix_experts(const Model& m, const std::string& at, const Vector& x, const Routing& routing,
                   Rounding rounding) {
  Vector out(x.size());
  const bool mixtral = m.shape.family == "mixtral";
  for (size_t i = 0; m.shape.family == "gpt_oss" && i < routing.experts.size(); ++i) {
    const Vector y =
        gpt_oss_expert(m, at + "mlp.experts.", static_cast<size_t>(routing.experts[i]), x, rounding);
    add_scaled(out.data(), routing.routing_weights[i], y.data(), out.size());
  }
  if (m.shape.family == "gpt_oss") return out;
  for (size_t i = 0; i < routing.experts.size(); ++i) {
    const std::string expert =
        at + (mixtral ? "block_sparse_moe" : "mlp") + ".experts." + std::to_string(routing.experts[i]) + ".";
    const Rows y = mixtral ? feed_forward(m, expert + "w1", expert + "w3", expert + "w2", {x}, rounding)
                           : feed_forward(m, expert + "gate_proj", expert + "up_proj", expert + "down_proj",
                                          {x}, rounding);
    add_scaled(out.data(), routing.routing_weights[i], y.front().data(), out.size());
  }
  return out;
}

}  // namespace

bool is_windowed(const Shape& s, int layer) {
  return layer >= s.window_from && (s.family != "gpt_oss" || (layer - s.window_from) % 2 == 0);
}

bool has_experts(const Shape& s, int layer) {
  if (s.family == "mixtral" || s.family == "gpt_oss") return true;
  return s.family == "qwen3_moe" && (layer + 1) % s.sparse_step == 0 &&
         std::find(s.dense_layers.begin(), s.dense_layers.end(), layer) == s.dense_layers.end();
}

Rows logits_of(const Model& m, const std::vector<int32_t>& ids, Rounding rounding,
               std::vector<std::vector<Routing>>* routings, Rounding cache) {
  const Shape& s = m.shape;
  if (routings) routings->assign(ids.size(), {});
  const Vector frequency = frequencies(s);
  const Vector& embeddings = m.weights.at("model.embed_tokens.weight");
  Rows xs;
  for (const int32_t id : ids)
    xs.emplace_back(embeddings.begin() + id * s.hidden, embeddings.begin() + (id + 1) * s.hidden);
  for (int layer = 0; layer < s.layers; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".";
    const bool gpt_oss = s.family == "gpt_oss";
    const auto window = static_cast<size_t>(is_windowed(s, layer) ? s.window : 0);
    const Vector* sinks = gpt_oss ? &m.weights.at(at + "self_attn.sinks") : nullptr;
    const Rows normed = rms_normed(xs, m.weights.at(at + "input_layernorm.weight"), s.eps);
    Rows queries = linear(m, at + "self_attn.q_proj", normed, rounding);
    Rows keys = linear(m, at + "self_attn.k_proj", normed, rounding);
    Rows values = linear(m, at + "self_attn.v_proj", normed, rounding);
    Rows mixed;
    for (size_t p = 0; p < ids.size(); ++p) {
      prepare_heads(m, queries[p], at + "self_attn.q_norm.weight", frequency, p);
      prepare_heads(m, keys[p], at + "self_attn.k_norm.weight", frequency, p);
      if (s.e4m3_cache) {
        keep_e4m3(keys[p], m.weights.at(at + "self_attn.k_scale"), s.head_dim);
        keep_e4m3(values[p], m.weights.at(at + "self_attn.v_scale"), s.head_dim);
      }
      keys[p] = rounded(std::move(keys[p]), cache);
      values[p] = rounded(std::move(values[p]), cache);
      mixed.push_back(
          attend(s, window, p, rounded(std::move(queries[p]), cache), keys, values, sinks, cache));
    }
    add(xs, linear(m, at + "self_attn.o_proj", std::move(mixed), rounding));
    const bool mixtral = s.family == "mixtral";
    const Rows inner = rms_normed(xs, m.weights.at(at + "post_attention_layernorm.weight"), s.eps);
    if (has_experts(s, layer)) {
      const std::string router = gpt_oss ? "mlp.router" : mixtral ? "block_sparse_moe.gate" : "mlp.gate";
      const Rows gates = linear(m, at + router, inner, rounding);
      Rows outputs;
      for (size_t p = 0; p < ids.size(); ++p) {
        const Routing routing = route(s, gates[p]);
        outputs.push_back(mix_experts(m, at, inner[p], routing, rounding));
        if (routings) (*routings)[p].push_back(routing);
      }
      add(xs, outputs);
    } else {
      add(xs,
          feed_forward(m, at + "mlp.gate_proj", at + "mlp.up_proj", at + "mlp.down_proj", inner, rounding));
    }
  }
  return linear(m, s.tied ? "model.embed_tokens" : "lm_head",
                rms_normed(std::move(xs), m.weights.at("model.norm.weight"), s.eps), rounding);
}

}  // namespace reference
