#include "tests/reference/graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace reference {
namespace {

using mkc::Op;
using mkc::OpKind;
using mkc::TensorId;

double sigmoid(double v) {
  return 1 / (1 + std::exp(-v));
}
double gelu(double v) {
  return v / 2 * std::erfc(-v / std::sqrt(2.0));
}
double gelu_tanh(double v) {
  return v / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v)));
}

struct Pass {
  const mkc::OpGraph& graph;
  const std::map<std::string, std::vector<double>>& weights;
  const std::vector<int32_t>& tokens;
  std::map<uint32_t, Rows> values{};  // keyed by TensorId, with a row of a cache for each position

  const Rows& rows(TensorId t) const { return values.at(t.index); }
  const std::vector<double>& weight(TensorId t) const { return weights.at(graph.tensors[t].source); }
  size_t columns(TensorId t) const { return static_cast<size_t>(graph.tensors[t].shape.back().constant()); }
  static double attr(const Op& op, const char* name) { return mkc::float_attr(op.attrs, name, 0); }
  static size_t size(const Op& op, const char* name) {
    return static_cast<size_t>(mkc::int_attr(op.attrs, name, 0));
  }

  template <class F>
  Rows mapped(TensorId x, F f) const {
    Rows out = rows(x);
    for (std::vector<double>& row : out)
      for (double& v : row) v = f(v);
    return out;
  }

  template <class F>
  Rows joined(const Op& op, F f) const {
    Rows out = rows(op.inputs[0]);
    const Rows& b = rows(op.inputs[1]);
    for (size_t t = 0; t < out.size(); ++t)
      for (size_t i = 0; i < out[t].size(); ++i) out[t][i] = f(out[t][i], b[t][i]);
    return out;
  }

  // Returns the norm over groups of `width` columns.
  Rows normed(const Op& op, size_t width, bool centered) const {
    Rows out = rows(op.inputs[0]);
    const std::vector<double>& w = weight(op.inputs[1]);
    for (std::vector<double>& row : out)
      for (size_t begin = 0; begin < row.size(); begin += width) {
        double mean = 0, squares = 0;
        for (size_t i = 0; centered && i < width; ++i) mean += row[begin + i] / static_cast<double>(width);
        for (size_t i = 0; i < width; ++i) squares += std::pow(row[begin + i] - mean, 2);
        const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + attr(op, "eps"));
        for (size_t i = 0; i < width; ++i)
          row[begin + i] =
              (row[begin + i] - mean) * scale * w[i] + (op.inputs.size() > 2 ? weight(op.inputs[2])[i] : 0);
      }
    return out;
  }

  Rows linear(const Op& op) const {
    const size_t n = static_cast<size_t>(graph.tensors[op.inputs[1]].shape[0].constant());
    const std::vector<double>& w = weight(op.inputs[1]);
    Rows out;
    for (const std::vector<double>& row : rows(op.inputs[0])) {
      std::vector<double> made(n);
      for (size_t j = 0; j < n; ++j) {
        for (size_t i = 0; i < row.size(); ++i) made[j] += row[i] * w[j * row.size() + i];
        if (op.inputs.size() > 2) made[j] += weight(op.inputs[2])[j];
      }
      out.push_back(std::move(made));
    }
    return out;
  }

  Rows roped(const Op& op) const {
    const auto table = std::find_if(graph.ropes.begin(), graph.ropes.end(),
                                    [&](const mkc::RopeTable& r) { return r.tensor == op.inputs[2]; });
    const size_t width = size(op, "head_dim"), half = width / 2;
    Rows out = rows(op.inputs[0]);
    for (size_t t = 0; t < out.size(); ++t)
      for (size_t begin = 0; begin < out[t].size(); begin += width)
        for (size_t i = 0; i < half; ++i) {
          const double angle = static_cast<double>(t) * table->inv_freq[i];
          double &low = out[t][begin + i], &high = out[t][begin + half + i];
          const double c = std::cos(angle) * table->scale, s = std::sin(angle) * table->scale;
          std::tie(low, high) = std::pair(low * c - high * s, high * c + low * s);
        }
    return out;
  }

  Rows attention(const Op& op) const {
    const size_t width = size(op, "head_dim"), heads = size(op, "heads"),
                 group = heads / size(op, "kv_heads"), window = size(op, "window");
    const Rows &q = rows(op.inputs[0]), &k = rows(op.inputs[1]), &v = rows(op.inputs[2]);
    Rows out(q.size(), std::vector<double>(heads * width));
    for (size_t t = 0; t < q.size(); ++t)
      for (size_t h = 0; h < heads; ++h) {
        const size_t of_q = h * width, of_k = h / group * width,
                     first = window != 0 && t + 1 > window ? t + 1 - window : 0;
        std::vector<double> weight_of(t + 1);
        double sum = op.inputs.size() > 4 ? std::exp(weight(op.inputs[4])[h]) : 0;
        for (size_t p = first; p <= t; ++p) {
          double score = 0;
          for (size_t i = 0; i < width; ++i) score += q[t][of_q + i] * k[p][of_k + i];
          sum += weight_of[p] = std::exp(score * attr(op, "scale"));
        }
        for (size_t p = first; p <= t; ++p)
          for (size_t i = 0; i < width; ++i) out[t][of_q + i] += weight_of[p] / sum * v[p][of_k + i];
      }
    return out;
  }

  Rows result(const Op& op) const {
    switch (op.kind) {
      case OpKind::kEmbed: {
        Rows out;
        const size_t width = columns(op.inputs[1]);
        for (const int32_t token : tokens) {
          const auto at =
              weight(op.inputs[1]).begin() + static_cast<ptrdiff_t>(static_cast<size_t>(token) * width);
          out.emplace_back(at, at + static_cast<ptrdiff_t>(width));
        }
        return out;
      }
      case OpKind::kRmsNorm:
      case OpKind::kLayerNorm:
        return normed(op, columns(op.inputs[0]), op.kind == OpKind::kLayerNorm);
      case OpKind::kHeadNorm:
        return normed(op, size(op, "head_dim"), false);
      case OpKind::kLinear:
        return linear(op);
      case OpKind::kRope:
        return roped(op);
      case OpKind::kAttention:
        return attention(op);
      case OpKind::kGatherRows:
        return rows(op.inputs[0]);
      case OpKind::kAdd:
        return joined(op, [](double a, double b) { return a + b; });
      case OpKind::kMul:
        return joined(op, [](double a, double b) { return a * b; });
      case OpKind::kSiluMul:
        return joined(op, [](double a, double b) { return a * sigmoid(a) * b; });
      case OpKind::kGeluMul:
        return joined(op, [](double a, double b) { return gelu(a) * b; });
      case OpKind::kGeluTanhMul:
        return joined(op, [](double a, double b) { return gelu_tanh(a) * b; });
      case OpKind::kSwigluOai:
        return joined(op, [](double a, double b) {
          const double gate = std::min(a, 7.0);
          return gate * sigmoid(1.702 * gate) * (std::clamp(b, -7.0, 7.0) + 1);
        });
      case OpKind::kScale:
        return mapped(op.inputs[0], [&](double v) { return v * attr(op, "by"); });
      case OpKind::kSilu:
        return mapped(op.inputs[0], [](double v) { return v * sigmoid(v); });
      case OpKind::kGelu:
        return mapped(op.inputs[0], gelu);
      case OpKind::kGeluTanh:
        return mapped(op.inputs[0], gelu_tanh);
      case OpKind::kSigmoid:
        return mapped(op.inputs[0], sigmoid);
      case OpKind::kClamp:
        return mapped(op.inputs[0],
                      [&](double v) { return std::clamp(v, attr(op, "min"), attr(op, "max")); });
      case OpKind::kSoftCap:
        return mapped(op.inputs[0],
                      [&](double v) { return attr(op, "cap") * std::tanh(v / attr(op, "cap")); });
      case OpKind::kKvWrite:
      case OpKind::kSample:
      case OpKind::kRoute:
      case OpKind::kExpertLinear:
      case OpKind::kExpertSum:
        break;
    }
    FAIL("the reference has no such op");
    return {};
  }
};

}  // namespace

std::map<std::string, Rows> values_of(const mkc::OpGraph& graph,
                                      const std::map<std::string, std::vector<double>>& weights,
                                      const std::vector<int32_t>& tokens) {
  Pass pass{graph, weights, tokens};
  for (const Op& op : graph.ops) {
    if (op.kind == OpKind::kSample) continue;
    if (op.kind == OpKind::kKvWrite) {
      for (size_t i = 0; i < 2; ++i) pass.values[op.outputs[i].index] = pass.rows(op.inputs[i]);
      continue;
    }
    pass.values[op.outputs[0].index] = pass.result(op);
  }
  std::map<std::string, Rows> out;
  for (const auto& [id, rows] : pass.values) out[graph.tensors[TensorId{id}].name] = rows;
  return out;
}

}  // namespace reference
