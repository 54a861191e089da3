#include "tools/quantize/matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "frontend/module_pattern.h"

namespace mkc::quantize {
namespace {

constexpr const char* kHead = "lm_head";  // the module of a head, also where its matrix is the embedding

bool is_product(const Op& op) {
  return op.kind == OpKind::kLinear || op.kind == OpKind::kExpertLinear;
}

// Tells whether a product's result is the model's logits, or those of a router.
bool gives_logits(const OpGraph& graph, const Op& product) {
  const TensorId out = product.outputs[0];
  return graph.tensors[out].kind == TensorKind::kOutput || std::ranges::any_of(graph.ops, [&](const Op& op) {
           return op.kind == OpKind::kRoute && std::ranges::count(op.inputs, out) > 0;
         });
}

// Returns the matrices of products, with whether they may be quantized.
std::map<std::string, bool> matrices_of_products(const OpGraph& graph) {
  std::map<TensorId, bool> weights;
  for (const Op& op : graph.ops)
    for (const TensorId id : op.inputs) {
      const Tensor& tensor = graph.tensors[id];
      if (is_product(op) && is_matrix(tensor)) weights[id] = true;
    }
  for (const Op& op : graph.ops)
    if (!is_product(op) || gives_logits(graph, op))
      for (const TensorId id : op.inputs)
        if (const auto at = weights.find(id); at != weights.end()) at->second = false;
  std::map<std::string, bool> matrices;
  for (const auto& [id, may] : weights) {
    const Tensor& tensor = graph.tensors[id];
    const int64_t stacked = tensor.shape.size() == 3 ? evaluate(tensor.shape[0], {}) : 1;
    for (int64_t i = 0; i < stacked; ++i) matrices[source_name(tensor, i)] = may;
  }
  return matrices;
}

Result<std::vector<ModulePattern>> parse_patterns(const std::vector<std::string>& keep) {
  std::vector<ModulePattern> patterns;
  for (const std::string& text : keep) {
    Result<ModulePattern> pattern = parse_pattern(text);
    if (!pattern.ok()) return Error{fmt::format("--keep: error: found {}", pattern.error().message)};
    patterns.push_back(std::move(pattern.value()));
  }
  return patterns;
}

std::string module_of(const std::string& matrix) {
  return matrix.substr(0, matrix.rfind('.'));
}

}  // namespace

Result<Matrices> choose_matrices(const OpGraph& graph, const std::vector<std::string>& keep) {
  const Result<std::vector<ModulePattern>> patterns = parse_patterns(keep);
  if (!patterns.ok()) return patterns.error();
  Matrices chosen;
  std::set<std::string> left_out{kHead};
  std::vector<bool> used(keep.size());
  for (const auto& [name, may] : matrices_of_products(graph)) {
    bool kept = !may;
    for (size_t i = 0; i < keep.size(); ++i) {
      const Result<bool> named = matches(patterns.value()[i], module_of(name));
      if (!named.ok()) return Error{fmt::format("--keep: error: {}", named.error().message)};
      if (named.value()) used[i] = true, kept = true;
    }
    if (kept)
      left_out.insert(module_of(name));
    else
      chosen.quantized.insert(name);
  }
  for (size_t i = 0; i < keep.size(); ++i)
    if (!used[i])
      return Error{
          fmt::format("--keep: error: found \"{}\", which names no matrix of {}", keep[i], graph.name)};
  chosen.left_out.assign(left_out.begin(), left_out.end());
  return chosen;
}

}  // namespace mkc::quantize
