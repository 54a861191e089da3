// A family of models is what a file of models/ declares. docs/families.md defines the language.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/formula.h"
#include "ir/ops.h"

namespace mkc {

struct ParamDecl {
  std::string name;
  Node::Kind type = Node::Kind::kInt;  // int, float, bool, string, or list (of ints)
  Formula value;
  std::optional<double> min, max;  // inclusive; in a list they bound each element
  Place place;
  bool operator==(const ParamDecl&) const = default;
};

// The config key must have one of these values. If the value is a list, each element must have one.
struct OnlyDecl {
  std::string key;
  std::vector<Node> allowed;
  bool operator==(const OnlyDecl&) const = default;
};

struct Requirement {
  Formula that;
  std::string key;   // the config key at fault, for the error's place
  std::string says;  // the message; `{name}` stands for the value of a name
  bool operator==(const Requirement&) const = default;
};

struct RopeDecl {
  std::string name;
  Formula dim, theta;
  std::optional<Formula> parameters;        // the config's map of RoPE scaling; none or null: no scaling
  std::optional<Formula> original_context;  // context before scaling; used if the map gives none
  std::optional<Node> default_parameters;   // a map in place of one that the config does not have
  Place place;
  bool operator==(const RopeDecl&) const = default;
};

struct WeightDecl {
  std::string name;
  std::string source;  // the checkpoint's name, without the block's prefix; `{e}` stands for the expert
  std::vector<Formula> shape;
  std::optional<Formula> stack;  // number of experts; their tensors form one weight, [stack, shape…]
  std::optional<Formula> when;
  Place place;
  bool operator==(const WeightDecl&) const = default;
};

struct CacheDecl {
  std::string name;
  std::vector<Formula> shape;
  std::string
      scales;  // the checkpoint's name of the scales, without the block's prefix; "" for a cache without any
  Place place;
  bool operator==(const CacheDecl&) const = default;
};

// An operand names a weight, a cache, an input, or a value computed earlier.
struct Operand {
  std::string name;  // "" for an optional operand that is not given
  Place place;
  bool operator==(const Operand&) const = default;
};

struct AttrDecl {
  std::string name;
  bool is_float = false;
  Formula value;
  bool operator==(const AttrDecl&) const = default;
};

struct OpDecl {
  OpKind kind = OpKind::kAdd;
  std::vector<Operand> inputs;  // in schema order
  std::vector<Operand> outputs;
  std::vector<AttrDecl> attrs;
  std::optional<Formula> when;
  Place place;
  bool operator==(const OpDecl&) const = default;
};

struct Block {
  std::string prefix;  // prefix of the block's checkpoint names; `{n}` stands for the layer
  std::vector<WeightDecl> weights;
  std::vector<CacheDecl> caches;
  std::vector<OpDecl> ops;
  bool operator==(const Block&) const = default;
};

// A checkpoint may hold tensors of this name although no weight uses them. `*` in the name stands for any
// text. A tensor that is a copy must equal the tensor `copy_of`, or else the config's `key` is wrong.
struct IgnoreDecl {
  std::string name;
  std::optional<Formula> when;
  std::string copy_of{};  // "": the tensor may have any content
  std::string key{};
  bool operator==(const IgnoreDecl&) const = default;
};

struct Family {
  std::string name;
  Document document;
  Place place;  // the place of the name
  std::vector<std::string> architectures;
  std::vector<std::string> model_types;
  Node defaults;  // by model type: a map of the keys that config.json may leave out
  std::vector<ParamDecl> params;
  std::vector<OnlyDecl> only;
  std::vector<Requirement> require;
  Formula max_context;
  std::optional<RopeDecl> rope;
  Block model;
  Block layer;
  Formula layer_count;
  std::vector<ParamDecl> layer_params;  // evaluated for each layer, whose number they see as `n`
  size_t layers_at = 0;                 // the layers run before model.ops[layers_at]
  std::vector<Operand> outputs;
  std::vector<IgnoreDecl> ignore;
  bool operator==(const Family&) const = default;
};

// Returns the family that a YAML document declares. Errors: unknown or missing keys, unknown ops and roles,
// malformed expressions.
Result<Family> read_family(Document document);

}  // namespace mkc
