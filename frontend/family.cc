#include "frontend/family.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/family_blocks.h"
#include "frontend/fields.h"

namespace mkc {
namespace {

using Kind = Node::Kind;

Result<std::vector<std::string>> names_field(const Document& document, const Node& map, std::string_view what,
                                             std::string_view key) {
  MKC_TRY(list, required_field(document, map, what, key, Kind::kList));
  return string_list(document, *list);
}

Status read_match(const Document& document, Family& family) {
  MKC_TRY(match, required_field(document, document.root, "the family", "match", Kind::kMap));
  MKC_TRY_STATUS(check_keys(document, *match, "match", {"architectures", "model_types"}));
  MKC_TRY(architectures, names_field(document, *match, "match", "architectures"));
  MKC_TRY(model_types, names_field(document, *match, "match", "model_types"));
  family.architectures = architectures;
  family.model_types = model_types;
  return {};
}

Status read_defaults(const Document& document, Family& family) {
  MKC_TRY(defaults, optional_field(document, document.root, "defaults", Kind::kMap));
  if (!defaults) return {};
  MKC_TRY_STATUS(check_keys(document, *defaults, "defaults", family.model_types));
  for (const std::string& type : defaults->keys)
    MKC_TRY_STATUS(required_field(document, *defaults, "defaults", type, Kind::kMap));
  family.defaults = *defaults;
  return {};
}

// Checks that expressions can read a parameter of this name, and that mkc sets no value of this name itself.
Status check_param_name(const Document& document, const std::string& name, Place place) {
  constexpr std::string_view kOwn[] = {"context", "max_tokens", "n"};
  const bool own = std::ranges::find(kOwn, name) != std::end(kOwn);
  const std::string fault = own ? "is a value of mkc's own" : name_fault(name);
  if (fault.empty()) return {};
  return document.error(place, fmt::format("parameter \"{}\" {}, expected another name", name, fault));
}

Result<ParamDecl> read_param(const Document& document, const std::string& name, const Node& node) {
  const std::string what = "parameter " + name;
  MKC_TRY_STATUS(check_keys(document, node, what, {"int", "float", "bool", "string", "list", "min", "max"}));
  ParamDecl param;
  param.name = name;
  param.place = node.place;
  const Node* value = nullptr;
  for (const Kind kind : {Kind::kInt, Kind::kFloat, Kind::kBool, Kind::kString, Kind::kList}) {
    const Node* found = find(node, kind_name(kind));
    if (!found) continue;
    if (value) return document.error(node.place, fmt::format("{} has two types", what));
    value = found;
    param.type = kind;
  }
  if (!value) {
    return document.error(node.place,
                          fmt::format("{} has no type, expected int, float, bool, string or list", what));
  }
  MKC_TRY(formula, parse_formula(document, *value));
  param.value = formula;
  MKC_TRY(min, optional_field(document, node, "min", Kind::kFloat));
  MKC_TRY(max, optional_field(document, node, "max", Kind::kFloat));
  if (const Node* bound = min ? min : max;
      bound && (param.type == Kind::kBool || param.type == Kind::kString))
    return document.error(bound->place, fmt::format("{} is a {}, expected bounds of int, float or list alone",
                                                    what, kind_name(param.type)));
  if (min) param.min = min->number();
  if (max) param.max = max->number();
  return param;
}

Result<std::vector<ParamDecl>> read_params(const Document& document, const Node& map) {
  MKC_TRY(nodes, optional_field(document, map, "params", Kind::kMap));
  std::vector<ParamDecl> params;
  for (size_t i = 0; nodes && i < nodes->keys.size(); ++i) {
    MKC_TRY_STATUS(check_param_name(document, nodes->keys[i], nodes->key_places[i]));
    MKC_TRY(param, read_param(document, nodes->keys[i], nodes->items[i]));
    params.push_back(std::move(param));
  }
  return params;
}

Status read_restrictions(const Document& document, Family& family) {
  MKC_TRY(only, optional_field(document, document.root, "only", Kind::kMap));
  for (size_t i = 0; only && i < only->keys.size(); ++i) {
    MKC_TRY(allowed, required_field(document, *only, "only", only->keys[i], Kind::kList));
    family.only.push_back({only->keys[i], allowed->items});
  }
  MKC_TRY(require, optional_field(document, document.root, "require", Kind::kList));
  for (size_t i = 0; require && i < require->items.size(); ++i) {
    const Node& entry = require->items[i];
    MKC_TRY_STATUS(check_keys(document, entry, "a requirement", {"that", "key", "says"}));
    MKC_TRY(that, required_field(document, entry, "a requirement", "that", Kind::kString));
    MKC_TRY(key, required_field(document, entry, "a requirement", "key", Kind::kString));
    MKC_TRY(says, required_field(document, entry, "a requirement", "says", Kind::kString));
    MKC_TRY(formula, parse_formula(document, *that));
    family.require.push_back({formula, key->string, says->string});
  }
  return {};
}

Result<Formula> required_formula(const Document& document, const Node& map, std::string_view what,
                                 std::string_view key) {
  const Node* node = find(map, key);
  if (node) return parse_formula(document, *node);
  return document.error(map.place, fmt::format("missing key \"{}\" in {}", key, what));
}

Status read_rope(const Document& document, Family& family) {
  const Node* node = find(document.root, "rope");
  if (!node) return {};
  MKC_TRY_STATUS(
      check_keys(document, *node, "rope",
                 {"name", "dim", "theta", "parameters", "default_parameters", "original_context"}));
  RopeDecl rope;
  rope.place = node->place;
  MKC_TRY(name, required_field(document, *node, "rope", "name", Kind::kString));
  rope.name = name->string;
  MKC_TRY(dim, required_formula(document, *node, "rope", "dim"));
  MKC_TRY(theta, required_formula(document, *node, "rope", "theta"));
  rope.dim = dim;
  rope.theta = theta;
  MKC_TRY(parameters, optional_formula(document, *node, "parameters"));
  MKC_TRY(original, optional_formula(document, *node, "original_context"));
  rope.parameters = parameters;
  rope.original_context = original;
  MKC_TRY(defaults, optional_field(document, *node, "default_parameters", Kind::kMap));
  if (defaults) rope.default_parameters = *defaults;
  family.rope = std::move(rope);
  return {};
}

Status read_layers(const Document& document, Family& family) {
  MKC_TRY(layers, required_field(document, document.root, "the family", "layers", Kind::kMap));
  MKC_TRY_STATUS(
      check_keys(document, *layers, "layers", {"repeat", "prefix", "params", "weights", "caches", "ops"}));
  MKC_TRY(count, required_formula(document, *layers, "layers", "repeat"));
  MKC_TRY(params, read_params(document, *layers));
  MKC_TRY(block, read_block(document, *layers, "layers", nullptr));
  family.layer_count = count;
  family.layer_params = std::move(params);
  family.layer = std::move(block);
  return {};
}

Status read_outputs_and_ignored(const Document& document, Family& family) {
  MKC_TRY(outputs, required_field(document, document.root, "the family", "outputs", Kind::kList));
  MKC_TRY_STATUS(string_list(document, *outputs));
  for (const Node& item : outputs->items) family.outputs.push_back({item.string, item.place});
  MKC_TRY(ignore, optional_field(document, document.root, "ignore", Kind::kList));
  for (size_t i = 0; ignore && i < ignore->items.size(); ++i) {
    const Node& entry = ignore->items[i];
    MKC_TRY_STATUS(check_keys(document, entry, "an ignored tensor", {"name", "when", "copy_of", "key"}));
    MKC_TRY(name, required_field(document, entry, "an ignored tensor", "name", Kind::kString));
    MKC_TRY(when, optional_formula(document, entry, "when"));
    IgnoreDecl& ignored = family.ignore.emplace_back(name->string, when);
    MKC_TRY(copy_of, optional_field(document, entry, "copy_of", Kind::kString));
    if (!copy_of) continue;
    MKC_TRY(key, required_field(document, entry, "a copy of a tensor", "key", Kind::kString));
    ignored.copy_of = copy_of->string, ignored.key = key->string;
  }
  return {};
}

}  // namespace

Result<Family> read_family(Document document) {
  Family family;
  MKC_TRY_STATUS(check_keys(document, document.root, "the family",
                            {"family", "match", "defaults", "params", "only", "require", "max_context",
                             "rope", "weights", "layers", "ops", "outputs", "ignore"}));
  MKC_TRY(name, required_field(document, document.root, "the family", "family", Kind::kString));
  family.name = name->string;
  family.place = name->place;
  MKC_TRY_STATUS(read_match(document, family));
  MKC_TRY_STATUS(read_defaults(document, family));
  MKC_TRY_STATUS(required_field(document, document.root, "the family", "params", Kind::kMap));
  MKC_TRY(params, read_params(document, document.root));
  family.params = std::move(params);
  MKC_TRY_STATUS(read_restrictions(document, family));
  MKC_TRY(max_context, required_formula(document, document.root, "the family", "max_context"));
  family.max_context = max_context;
  MKC_TRY_STATUS(read_rope(document, family));
  MKC_TRY_STATUS(read_layers(document, family));
  MKC_TRY(model, read_block(document, document.root, "the family", &family.layers_at));
  family.model = std::move(model);
  MKC_TRY_STATUS(read_outputs_and_ignored(document, family));
  family.document = std::move(document);
  return family;
}

}  // namespace mkc
