#include "tools/quantize/matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "frontend/module_pattern.h"
#include "runtime/artefact/tensor_view.h"

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

// Kind is what may become of a matrix.
enum class Kind : uint8_t { kStays, kMatrix, kStacked };

// Returns the matrices of products by the names of their tensors.
std::map<std::string, Kind> matrices_of_products(const OpGraph& graph) {
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
  std::map<std::string, Kind> matrices;
  for (const auto& [id, may] : weights) {
    const Tensor& tensor = graph.tensors[id];
    const int64_t stacked = tensor.shape.size() == 3 ? evaluate(tensor.shape[0], {}) : 1;
    for (int64_t i = 0; i < stacked; ++i) {
      const std::string name = source_name(tensor, i);
      const std::optional<mkrt::TensorView> view = mkrt::find_view(name);
      matrices[view ? view->tensor : name] = !may ? Kind::kStays : view ? Kind::kStacked : Kind::kMatrix;
    }
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

// Lets matrices stay whose modules a pattern of `keep` names.
Status keep_matrices(std::map<std::string, Kind>& matrices, const std::vector<std::string>& keep,
                     const std::string& model) {
  MKC_TRY(patterns, parse_patterns(keep));
  for (size_t i = 0; i < keep.size(); ++i) {
    bool used = false;
    for (auto& [name, kind] : matrices) {
      const Result<bool> named = matches(patterns[i], module_of(name));
      if (!named.ok()) return Error{fmt::format("--keep: error: {}", named.error().message)};
      if (named.value()) used = true, kind = Kind::kStays;
    }
    if (!used)
      return Error{fmt::format("--keep: error: found \"{}\", which names no matrix of {}", keep[i], model)};
  }
  return {};
}

}  // namespace

Result<Matrices> choose_matrices(const OpGraph& graph, const std::vector<std::string>& keep,
                                 const Format& format) {
  std::map<std::string, Kind> matrices = matrices_of_products(graph);
  MKC_TRY_STATUS(keep_matrices(matrices, keep, graph.name));
  const bool stacked =
      std::ranges::any_of(matrices, [](const auto& m) { return m.second == Kind::kStacked; });
  const Format* const of_stacked = stacked ? find_stacked(format) : nullptr;
  Matrices chosen{of_stacked ? of_stacked : &format, {}, {}};
  std::set<std::string> left_out{kHead};
  for (const auto& [name, kind] : matrices)
    if (kind == Kind::kStays || (of_stacked && kind != Kind::kStacked))
      left_out.insert(module_of(name));
    else
      chosen.quantized.insert(name);
  chosen.left_out.assign(left_out.begin(), left_out.end());
  return chosen;
}

}  // namespace mkc::quantize
