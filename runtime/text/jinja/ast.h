// A template is parsed into this syntax tree.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/text/jinja/symbols.h"

namespace mkrt::jinja {

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,  // arithmetic
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,  // comparison
};

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Keyword {
  std::string name;
  ExpressionPtr value;
};

struct Expression {
  enum class Kind : uint8_t {
    kNone,
    kBoolean,
    kInteger,
    kFloat,
    kString,           // the value stands in the member of that name
    kName,             // text: the name
    kNamespaceTarget,  // text: the name; attribute: what is assigned
    kList,
    kTuple,      // items: the elements
    kDict,       // items: key, value, key, value, …
    kAttribute,  // items[0].text
    kItem,       // items[0][items[1]]
    kSlice,      // items[0][items[1]:items[2]:items[3]], each may be null
    kCall,       // items[0] is called with the rest
    kFilter,     // text: its name; items[0], null in blocks, is its input
    kTest,       // text: its name; items[0] is tested
    kNot,
    kNegative,
    kPositive,  // items[0]
    kAnd,
    kOr,           // items[0], items[1]
    kBinary,       // items[0] operators[0] items[1]
    kCompare,      // items[0] operators[0] items[1] operators[1] …
    kConcat,       // items[0] ~ items[1] ~ …
    kConditional,  // items[0] if items[1] else items[2], which may be null
  };

  Kind kind;
  uint32_t line;
  uint32_t depth = 1;  // levels of expressions from here down
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::string attribute;
  std::vector<ExpressionPtr> items;
  std::vector<Operator> operators;
  // Calls, filters and tests only: keyword arguments, and the expressions behind * and **.
  std::vector<Keyword> keywords;
  ExpressionPtr star, star_star;
};
using ExpressionKind = Expression::Kind;

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Branch {
  ExpressionPtr condition;
  Block body;
};

struct Statement {
  enum class Kind : uint8_t {
    kText,   // text
    kPrint,  // values
    kIf,     // branches, in order, then otherwise
    kFor,    // target, value, condition (may be null), body, otherwise
    kBreak,
    kContinue,
    kSet,         // target, value
    kSetBlock,    // target, filter (may be null), body
    kMacro,       // text: its name; target names its parameters, values their defaults; body
    kCall,        // value: the call; target, values and body as of a macro, for its caller
    kFilter,      // filter, body
    kWith,        // targets, values, body
    kGeneration,  // body
  };

  Kind kind;
  uint32_t line;
  std::string text;
  ExpressionPtr target, value, condition, filter;
  std::vector<ExpressionPtr> targets, values;
  std::vector<Branch> branches;
  Block body, otherwise;
  // Names of the scopes that the statement opens: of the body, of a loop's condition and of its else part.
  Symbols body_symbols, condition_symbols, otherwise_symbols;
  // Macros only: which special names the body reads without declaring them.
  bool reads_caller = false, reads_keywords = false, reads_rest = false;
};
using StatementKind = Statement::Kind;

// A Template is immutable once parsed, so that threads may share it.
struct Template {
  Block body;
  Symbols symbols;
};

}  // namespace mkrt::jinja
