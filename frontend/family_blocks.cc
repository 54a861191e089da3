#include "frontend/family_blocks.h"

#include <fmt/format.h>

#include "frontend/fields.h"

namespace mkc {
namespace {

using Kind = Node::Kind;

Result<std::vector<Formula>> read_shape(const Document& document, const Node& map, std::string_view what) {
  MKC_TRY(list, required_field(document, map, what, "shape", Kind::kList));
  std::vector<Formula> shape;
  for (const Node& item : list->items) {
    MKC_TRY(dim, parse_formula(document, item));
    shape.push_back(std::move(dim));
  }
  return shape;
}

Status read_weights(const Document& document, const Node& map, Block& block) {
  MKC_TRY(weights, optional_field(document, map, "weights", Kind::kMap));
  for (size_t i = 0; weights && i < weights->keys.size(); ++i) {
    const Node& node = weights->items[i];
    const std::string what = "weight " + weights->keys[i];
    MKC_TRY_STATUS(check_keys(document, node, what, {"name", "stack", "shape", "when"}));
    MKC_TRY(source, required_field(document, node, what, "name", Kind::kString));
    MKC_TRY(shape, read_shape(document, node, what));
    MKC_TRY(stack, optional_formula(document, node, "stack"));
    MKC_TRY(when, optional_formula(document, node, "when"));
    constexpr std::string_view kStack = "a stack";
    if (stack.has_value() != (source->string.find(kExpertMark) != std::string::npos)) {
      return document.error(source->place,
                            fmt::format("{} has {} without {}", what, stack ? kStack : kExpertMark,
                                        stack ? kExpertMark : kStack));
    }
    block.weights.push_back({weights->keys[i], source->string, shape, stack, when, weights->key_places[i]});
  }
  return {};
}

Status read_caches(const Document& document, const Node& map, Block& block) {
  MKC_TRY(caches, optional_field(document, map, "caches", Kind::kMap));
  for (size_t i = 0; caches && i < caches->keys.size(); ++i) {
    const std::string what = "cache " + caches->keys[i];
    MKC_TRY_STATUS(check_keys(document, caches->items[i], what, {"scales", "shape"}));
    MKC_TRY(shape, read_shape(document, caches->items[i], what));
    MKC_TRY(scales, optional_field(document, caches->items[i], "scales", Kind::kString));
    block.caches.push_back({caches->keys[i], shape, scales ? scales->string : "", caches->key_places[i]});
  }
  return {};
}

std::vector<std::string> field_names(const OpSchema& schema) {
  std::vector<std::string> names;
  for (const auto* roles : {&schema.inputs, &schema.outputs})
    for (const RoleSchema& role : *roles) names.emplace_back(role_name(role.name));
  for (const auto* attrs : {&schema.int_attrs, &schema.float_attrs})
    names.insert(names.end(), attrs->begin(), attrs->end());
  return names;
}

Status read_operands(const Document& document, const Node& fields, const OpSchema& schema,
                     const std::vector<RoleSchema>& roles, std::vector<Operand>& operands) {
  for (const RoleSchema& schema_role : roles) {
    const std::string_view role = schema_role.name;
    MKC_TRY(node, optional_field(document, fields, role_name(role), Kind::kString));
    if (!node && !role.ends_with('?')) {
      return document.error(fields.place, fmt::format("missing key \"{}\" in {}", role, schema.name));
    }
    operands.push_back(node ? Operand{node->string, node->place} : Operand{"", fields.place});
  }
  return {};
}

Status read_attrs(const Document& document, const Node& fields, const OpSchema& schema,
                  const std::vector<const char*>& names, bool is_float, OpDecl& op) {
  for (const char* name : names) {
    const Node* node = find(fields, name);
    if (!node)
      return document.error(fields.place, fmt::format("missing key \"{}\" in {}", name, schema.name));
    MKC_TRY(value, parse_formula(document, *node));
    op.attrs.push_back({name, is_float, value});
  }
  return {};
}

// Reads `- rms_norm: {x: h, …}`. A conditional op has a `when:` beside its name.
Result<OpDecl> read_op(const Document& document, const Node& entry) {
  OpDecl op;
  const Node* fields = nullptr;
  const OpSchema* schema = nullptr;
  for (size_t i = 0; i < entry.keys.size(); ++i) {
    const std::string& key = entry.keys[i];
    if (key == "when") continue;
    if (schema)
      return document.error(entry.key_places[i], fmt::format("a second op \"{}\" in one step", key));
    schema = find_op_schema(key);
    if (!schema) {
      return document.error(entry.key_places[i],
                            fmt::format("unknown op \"{}\"{}", key, suggestion(key, op_names())));
    }
    fields = &entry.items[i];
    op.place = entry.key_places[i];
  }
  if (!schema) return document.error(entry.place, fmt::format("found {}, expected an op", describe(entry)));
  op.kind = schema->kind;
  MKC_TRY_STATUS(check_keys(document, *fields, schema->name, field_names(*schema)));
  MKC_TRY_STATUS(read_operands(document, *fields, *schema, schema->inputs, op.inputs));
  MKC_TRY_STATUS(read_operands(document, *fields, *schema, schema->outputs, op.outputs));
  MKC_TRY_STATUS(read_attrs(document, *fields, *schema, schema->int_attrs, false, op));
  MKC_TRY_STATUS(read_attrs(document, *fields, *schema, schema->float_attrs, true, op));
  MKC_TRY(when, optional_formula(document, entry, "when"));
  op.when = when;
  return op;
}

}  // namespace

Result<std::optional<Formula>> optional_formula(const Document& document, const Node& map,
                                                std::string_view key) {
  const Node* node = find(map, key);
  if (!node) return std::optional<Formula>();
  MKC_TRY(formula, parse_formula(document, *node));
  return std::optional<Formula>(formula);
}

Result<Block> read_block(const Document& document, const Node& map, std::string_view what,
                         size_t* layers_at) {
  Block block;
  MKC_TRY(prefix, optional_field(document, map, "prefix", Kind::kString));
  if (prefix) block.prefix = prefix->string;
  MKC_TRY_STATUS(read_weights(document, map, block));
  MKC_TRY_STATUS(read_caches(document, map, block));
  MKC_TRY(ops, required_field(document, map, what, "ops", Kind::kList));
  bool layers_seen = false;
  for (const Node& entry : ops->items) {
    if (layers_at && entry == string_node("layers")) {
      if (layers_seen) return document.error(entry.place, "the layers stand here a second time");
      layers_seen = true;
      *layers_at = block.ops.size();
      continue;
    }
    MKC_TRY(op, read_op(document, entry));
    block.ops.push_back(std::move(op));
  }
  if (layers_at && !layers_seen) return document.error(ops->place, "missing \"layers\" among the ops");
  return block;
}

}  // namespace mkc
