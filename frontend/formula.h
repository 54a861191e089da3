// The expressions of family files: over config keys and parameters, evaluated once per compile.
//
//   a if c else b | or | and | not | == != < <= > >= in | ?? | + - | * / % | - | literal, name,
//   config.key.key, list[i], size(list), sqrt(…), ( … )
//
// listed from loosest to tightest. `a ?? b` is b where a is null; a config key that is missing is null.
// `a in b`: whether the list b has an element a. Of `a if c else b` only the one wanted is
// evaluated. Integer division must leave no remainder. Strings stand in
// single quotes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontend/node.h"

namespace mkc {

enum class FormulaOp : uint8_t {
  kLiteral,
  kName,
  kConfig,
  kIf,
  kOr,
  kAnd,
  kNot,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kElse,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,
  kNegate,
  kSqrt,
  kIndex,
  kSize
};

struct FormulaNode {
  FormulaOp op = FormulaOp::kLiteral;
  Node literal;      // kLiteral
  std::string name;  // kName; kConfig: the dotted key without "config."
  size_t lhs = 0, rhs = 0;
  Place place;
  size_t condition = 0;  // kIf
  bool operator==(const FormulaNode&) const = default;
};

struct Formula {
  std::string text;
  Place place;
  std::vector<FormulaNode> nodes;  // operands before operators; the last is the root
  bool operator==(const Formula&) const = default;
};

// `node`: a scalar of `document`; a string is parsed, any other scalar is a literal.
Result<Formula> parse_formula(const Document& document, const Node& node);

// What a formula can see. The documents outlive the scope.
struct Scope {
  const Document* family = nullptr;
  const Document* config = nullptr;
  std::map<std::string, Node, std::less<>> names;
};

// The value; one that was read from a config key as it is keeps the key's place and path.
// Errors: unknown names and wrong operand types at their place in the family file, missing config keys in the
// config file.
Result<Node> evaluate(const Formula& formula, const Scope& scope);
// The same for formulas that must give a bool, or an int.
Result<bool> evaluate_bool(const Formula& formula, const Scope& scope);
Result<int64_t> evaluate_int(const Formula& formula, const Scope& scope);

// The value at a dotted key of config.json; null with that path where there is none.
Node config_value(const Document& config, std::string_view path);

// "missing key "k", needed by FAMILY:LINE:COL", in the config file.
Error missing_key(const Scope& scope, const std::string& path, Place needed_at);

}  // namespace mkc
