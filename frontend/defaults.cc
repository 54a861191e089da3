#include "frontend/defaults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace mkc {
namespace {

using Kind = Node::Kind;

bool is_default(const Node& value) {
  return value.place.line == 0 && !value.is(Kind::kNull);
}

std::string model_type(const Family& family, const Document& config) {
  const Node type = config_value(config, "model_type");
  if (type.is(Kind::kString)) return type.string;
  const Node names = config_value(config, "architectures");
  if (!names.is(Kind::kList) || names.items.empty()) return "";
  const auto& known = family.architectures;
  const auto at = static_cast<size_t>(std::ranges::find(known, names.items[0].string) - known.begin());
  return at < known.size() && at < family.model_types.size() ? family.model_types[at] : "";
}

// Tells whether config.json gives a value to the operand at this node.
bool is_given(const Formula& formula, size_t at, const Document& config) {
  const FormulaNode& node = formula.nodes[at];
  if (node.op == FormulaOp::kElse)
    return is_given(formula, node.lhs, config) || is_given(formula, node.rhs, config);
  return node.op == FormulaOp::kConfig && !config_value(config, node.name).is(Kind::kNull);
}

// Adds the keys of config.json that a formula reads, by itself or by parameters. The right operand of ?? is
// not read where the left one is given.
void add_keys(const Formula& formula, const Family& family, const Document& config,
              std::set<std::string>& keys) {
  for (size_t at = formula.nodes.size(); at-- > 0;) {
    const FormulaNode& node = formula.nodes[at];
    if (node.op == FormulaOp::kElse && is_given(formula, node.lhs, config)) at = node.lhs + 1;
    if (node.op == FormulaOp::kConfig) keys.insert(node.name);
    if (node.op != FormulaOp::kName) continue;
    // A parameter reads those that stand before it.
    const auto param = std::ranges::find(family.params, node.name, &ParamDecl::name);
    if (param != family.params.end()) add_keys(param->value, family, config, keys);
  }
}

}  // namespace

Document with_defaults(const Family& family, Document config) {
  const Node* defaults = find(family.defaults, model_type(family, config));
  if (!defaults || !config.root.is(Kind::kMap)) return config;
  for (size_t i = 0; i < defaults->keys.size(); ++i) {
    if (find(config.root, defaults->keys[i])) continue;
    config.root.keys.push_back(defaults->keys[i]);
    config.root.key_places.emplace_back();
    config.root.items.push_back(defaults->items[i]);
    config.root.items.back().place = {};
  }
  return config;
}

std::string default_note(const Node& value) {
  if (!is_default(value) || value.path.empty()) return "";
  return fmt::format("; the key is missing, and {} is its default", describe(value));
}

std::string default_note(const Family& family, const Document& config) {
  std::set<std::string> keys;
  add_keys(family.layer_count, family, config, keys);
  for (const Block* block : {&family.model, &family.layer}) {
    for (const WeightDecl& weight : block->weights) {
      for (const Formula& dim : weight.shape) add_keys(dim, family, config, keys);
      if (weight.stack) add_keys(*weight.stack, family, config, keys);
    }
  }
  std::vector<std::string> missing;
  for (const std::string& key : keys) {
    const Node value = config_value(config, key);
    if (is_default(value)) missing.push_back(fmt::format("{} {}", key, describe(value)));
  }
  if (missing.empty()) return "";
  return fmt::format("; missing in {}, with defaults: {}", config.source.path, fmt::join(missing, ", "));
}

}  // namespace mkc
