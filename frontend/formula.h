// Family files hold expressions. They refer to config keys and parameters and are evaluated once per compile.
//
//   a if c else b | or | and | not | == != < <= > >= in | ?? | + - | * / % | - | literal, name,
//   config, config.key.key, list[i], size(list), sqrt(…), ( … )
//
// The operators are listed from the loosest to the tightest. A missing config key is null. Strings stand in
// single quotes.
//
// `a ?? b` is b if a is null. `a in b` tells whether the list b has an element equal to a, or the map b has
// the key a. `a if c else b` evaluates only the operand that it returns. Integer division must leave no
// remainder.
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
  std::string name;  // kName: the name; kConfig: the dotted key without "config.", "" for all
  size_t lhs = 0, rhs = 0;
  Place place;
  size_t condition = 0;  // kIf
  bool operator==(const FormulaNode&) const = default;
};

struct Formula {
  std::string text;
  Place place;
  std::vector<FormulaNode> nodes;  // operands before operators; the last node is the root
  bool operator==(const Formula&) const = default;
};

// Returns the formula of a scalar `node` of `document`. A string is parsed; any other scalar is a literal.
// Errors: a list or map, a malformed expression.
Result<Formula> parse_formula(const Document& document, const Node& node);

// Returns what keeps formulas from reading a value of this name, or "".
std::string name_fault(std::string_view name);

// Scope is what a formula can read. The documents outlive the scope.
struct Scope {
  const Document* family = nullptr;
  const Document* config = nullptr;
  std::map<std::string, Node, std::less<>> names;
};

// Returns the value of a formula. A value read unchanged from a config key keeps the key's place and path.
//
// Errors: unknown names and wrong operand types, at their place in the family file. Faults of a config value
// are reported in the config file: a missing key, a wrong type, a bad index, a remainder.
Result<Node> evaluate(const Formula& formula, const Scope& scope);
// Return the value of a formula that must give a bool, or an int. Errors: those of evaluate(), another type.
Result<bool> evaluate_bool(const Formula& formula, const Scope& scope);
Result<int64_t> evaluate_int(const Formula& formula, const Scope& scope);

// Returns the value at a dotted key of config.json, with that path. The value of a missing key is null.
Node config_value(const Document& config, std::string_view path);

// Returns the error "missing key "k", needed by FAMILY:LINE:COL" in the config file.
Error missing_key(const Scope& scope, const std::string& path, Place needed_at);

}  // namespace mkc
