#include "tools/quantize/matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "frontend/module_pattern.h"
#include "runtime/artefact/tensor_view.h"

namespace mkc::quantize {
namespace {

bool is_product(const Op& op) {
  return op.kind == OpKind::kLinear || op.kind == OpKind::kExpertLinear;
}

// Tells whether an op reads a product's result as the logits of a router.
bool is_routed(const OpGraph& graph, const Op& product) {
  const TensorId out = product.outputs[0];
  return std::ranges::any_of(graph.ops, [&](const Op& op) {
    return op.kind == OpKind::kRoute && std::ranges::count(op.inputs, out) > 0;
  });
}

// Kind is what may become of a matrix of products.
enum class Kind : uint8_t { kStays, kMatrix, kStacked, kHead, kTiedHead };

// Use says which ops read a matrix.
struct Use {
  bool product = false, head = false, router = false, other = false;

  Kind kind(bool stacked) const {
    if (router) return Kind::kStays;
    if (other) return Kind::kTiedHead;
    return head ? Kind::kHead : stacked ? Kind::kStacked : Kind::kMatrix;
  }
};

std::map<TensorId, Use> uses_of_matrices(const OpGraph& graph) {
  std::map<TensorId, Use> uses;
  for (const Op& op : graph.ops)
    for (const TensorId id : op.inputs) {
      if (!is_matrix(graph.tensors[id])) continue;
      Use& use = uses[id];
      const bool product = is_product(op);
      use.product |= product;
      use.other |= !product;
      use.router |= product && is_routed(graph, op);
      use.head |= product && graph.tensors[op.outputs[0]].kind == TensorKind::kOutput;
    }
  return uses;
}

// Returns the matrices of products by the names of their tensors.
std::map<std::string, Kind> matrices_of_products(const OpGraph& graph) {
  std::map<std::string, Kind> matrices;
  for (const auto& [id, use] : uses_of_matrices(graph)) {
    if (!use.product) continue;
    const Tensor& tensor = graph.tensors[id];
    const int64_t stacked = tensor.shape.size() == 3 ? evaluate(tensor.shape[0], {}) : 1;
    for (int64_t i = 0; i < stacked; ++i) {
      const std::string name = source_name(tensor, i);
      const std::optional<mkrt::TensorView> view = mkrt::find_view(name);
      matrices[view ? view->tensor : name] = use.kind(view.has_value());
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

// Checks that the experts of each stacked tensor stay all, or none of them: mkc reads experts of one format.
Status check_experts(const OpGraph& graph, const std::map<std::string, Kind>& matrices) {
  for (const Tensor& tensor : graph.tensors) {
    const auto first = tensor.shape.size() == 3 ? matrices.find(source_name(tensor, 0)) : matrices.end();
    if (first == matrices.end()) continue;
    const int64_t experts = evaluate(tensor.shape[0], {});
    for (int64_t i = 1; i < experts; ++i) {
      const auto other = matrices.find(source_name(tensor, i));
      if (other == matrices.end() || (other->second == Kind::kStays) == (first->second == Kind::kStays))
        continue;
      const bool keeps_first = first->second == Kind::kStays;
      return Error{
          fmt::format("--keep: error: found {} kept and {} not, expected all experts of a layer or none",
                      module_of(keeps_first ? first->first : other->first),
                      module_of(keeps_first ? other->first : first->first))};
    }
  }
  return {};
}

// Names the head where it is the embedding and a pattern means a head of its own, or returns "".
std::string head_remark(const std::map<std::string, Kind>& matrices, const ModulePattern& pattern) {
  const Result<bool> means_head = matches(pattern, module_of(kHeadWeight));
  const auto tied = std::ranges::find(matrices, Kind::kTiedHead, [](const auto& m) { return m.second; });
  if (!means_head.ok() || !means_head.value() || tied == matrices.end()) return "";
  return fmt::format(": its head is the embedding, {}", module_of(tied->first));
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
      return Error{fmt::format("--keep: error: found \"{}\", which names no matrix of {}{}", keep[i], model,
                               head_remark(matrices, patterns[i]))};
  }
  return {};
}

}  // namespace

Result<Matrices> choose_matrices(const OpGraph& graph, const Selection& selection, const Format& format) {
  std::map<std::string, Kind> matrices = matrices_of_products(graph);
  const auto heads = [&] {
    return std::ranges::count_if(
        matrices, [](const auto& m) { return m.second == Kind::kHead || m.second == Kind::kTiedHead; });
  };
  const auto all_heads = heads();
  MKC_TRY_STATUS(keep_matrices(matrices, selection.keep, graph.name));
  MKC_TRY_STATUS(check_experts(graph, matrices));
  const bool keeps_head = heads() < all_heads;
  const bool stacked =
      std::ranges::any_of(matrices, [](const auto& m) { return m.second == Kind::kStacked; });
  const Format* const of_stacked = stacked ? find_stacked(format) : nullptr;
  Matrices chosen{of_stacked ? of_stacked : &format, {}, {}, {}};
  std::set<std::string> left_out;
  bool head = false;
  for (const auto& [name, kind] : matrices) {
    const bool is_head = kind == Kind::kHead || kind == Kind::kTiedHead;
    if (kind == Kind::kStays || (is_head && !selection.head) || (of_stacked && kind != Kind::kStacked)) {
      left_out.insert(module_of(name));
      continue;
    }
    head |= is_head;
    if (kind == Kind::kTiedHead)
      chosen.tied_head = name;
    else
      chosen.quantized.insert(name);
  }
  if (selection.head && !head && keeps_head)
    return Error{fmt::format("--head: error: --keep leaves the head of {} as it is, expected one of the two",
                             graph.name)};
  if (selection.head && !head)
    return Error{fmt::format("--head: error: {} has no head that can get {}", graph.name, format.name)};
  if (chosen.count() == 0)
    return Error{fmt::format("--keep: error: names all matrices of {}, expected one that gets {}", graph.name,
                             format.name)};
  if (!head) left_out.insert(module_of(kHeadWeight));
  chosen.left_out.assign(left_out.begin(), left_out.end());
  return chosen;
}

}  // namespace mkc::quantize
