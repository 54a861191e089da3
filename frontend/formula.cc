#include "frontend/formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mkc {
namespace {

class Evaluator {
 public:
  Evaluator(const Formula& formula, const Scope& scope) : formula_(formula), scope_(scope) {}

  Result<Node> value(size_t index) const {
    const FormulaNode& node = formula_.nodes[index];
    switch (node.op) {
      case FormulaOp::kLiteral:
        return node.literal;
      case FormulaOp::kName:
        return name(node);
      case FormulaOp::kConfig:
        return config_value(*scope_.config, node.name);
      case FormulaOp::kIf: {
        MKC_TRY(condition, boolean(node.condition));
        return value(condition ? node.lhs : node.rhs);
      }
      case FormulaOp::kOr:
      case FormulaOp::kAnd:
        return both(node);
      case FormulaOp::kNot: {
        MKC_TRY(operand, boolean(node.lhs));
        return bool_node(!operand);
      }
      case FormulaOp::kEq:
      case FormulaOp::kNe: {
        MKC_TRY(a, value(node.lhs));
        MKC_TRY(b, value(node.rhs));
        return bool_node((a == b) == (node.op == FormulaOp::kEq));
      }
      case FormulaOp::kIn: {
        MKC_TRY(element, value(node.lhs));
        MKC_TRY(whole, value(node.rhs));
        if (whole.is(Node::Kind::kMap) && element.is(Node::Kind::kString))
          return bool_node(find(whole, element.string) != nullptr);
        MKC_TRY(list, list_at(node.rhs));
        return bool_node(std::find(list.items.begin(), list.items.end(), element) != list.items.end());
      }
      case FormulaOp::kElse: {
        MKC_TRY(first, value(node.lhs));
        if (!first.is(Node::Kind::kNull)) return first;
        return value(node.rhs);
      }
      case FormulaOp::kNegate: {
        MKC_TRY(a, number(node.lhs));
        return arithmetic(node, FormulaOp::kSub, int_node(0), a);
      }
      case FormulaOp::kSqrt: {
        MKC_TRY(a, number(node.lhs));
        if (a.number() < 0) return fail(node.place, fmt::format("square root of {}", describe(a)));
        return float_node(std::sqrt(a.number()));
      }
      case FormulaOp::kIndex:
        return element(node);
      case FormulaOp::kSize: {
        MKC_TRY(list, list_at(node.lhs));
        return int_node(static_cast<int64_t>(list.items.size()));
      }
      case FormulaOp::kLt:
      case FormulaOp::kLe:
      case FormulaOp::kGt:
      case FormulaOp::kGe:
      case FormulaOp::kAdd:
      case FormulaOp::kSub:
      case FormulaOp::kMul:
      case FormulaOp::kDiv:
      case FormulaOp::kMod: {
        MKC_TRY(a, number(node.lhs));
        MKC_TRY(b, number(node.rhs));
        return arithmetic(node, node.op, a, b);
      }
    }
    MKC_BUG("unknown formula operator");
  }

  Result<bool> boolean(size_t index) const {
    MKC_TRY(result, value(index));
    if (result.is(Node::Kind::kBool)) return result.boolean;
    return wrong_type(index, result, "a bool");
  }

  Error wrong_type(size_t index, const Node& found, const char* expected) const {
    const Place place = formula_.nodes[index].place;
    if (found.is(Node::Kind::kNull) && !found.path.empty()) return missing_key(scope_, found.path, place);
    const std::string message = fmt::format("is {}, expected {}", describe(found), expected);
    if (!found.path.empty()) return scope_.config->error(found.place, found.path + " " + message);
    return fail(place, "value " + message);
  }

 private:
  const Formula& formula_;
  const Scope& scope_;

  Error fail(Place place, const std::string& message) const {
    return scope_.family->error(place, fmt::format("{} in \"{}\"", message, formula_.text));
  }

  Result<Node> name(const FormulaNode& node) const {
    const auto found = scope_.names.find(node.name);
    if (found != scope_.names.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [known_name, unused] : scope_.names) known.push_back(known_name);
    const std::string near = nearest_name(node.name, known);
    return fail(node.place, fmt::format("unknown name \"{}\"{}", node.name,
                                        near.empty() ? "" : fmt::format(", did you mean \"{}\"?", near)));
  }

  Result<Node> list_at(size_t index) const {
    MKC_TRY(result, value(index));
    if (result.is(Node::Kind::kList)) return result;
    return wrong_type(index, result, "a list");
  }

  Result<Node> element(const FormulaNode& node) const {
    MKC_TRY(list, list_at(node.lhs));
    MKC_TRY(index, number(node.rhs));
    const auto size = static_cast<int64_t>(list.items.size());
    if (!index.is(Node::Kind::kInt)) return wrong_type(node.rhs, index, "an int");
    if (index.integer >= 0 && index.integer < size) return list.items[static_cast<size_t>(index.integer)];
    const std::string message = fmt::format("{} elements, none of index {}", size, index.integer);
    if (!list.path.empty())
      return scope_.config->error(list.place, fmt::format("{} has {}", list.path, message));
    return fail(node.place, message);
  }

  Result<Node> both(const FormulaNode& node) const {
    MKC_TRY(a, boolean(node.lhs));
    if (a == (node.op == FormulaOp::kOr)) return bool_node(a);
    MKC_TRY(b, boolean(node.rhs));
    return bool_node(b);
  }

  Result<Node> number(size_t index) const {
    MKC_TRY(result, value(index));
    if (result.is_number()) return result;
    return wrong_type(index, result, "a number");
  }

  Result<Node> arithmetic(const FormulaNode& node, FormulaOp op, const Node& a, const Node& b) const {
    if (op == FormulaOp::kLt) return bool_node(a.number() < b.number());
    if (op == FormulaOp::kLe) return bool_node(a.number() <= b.number());
    if (op == FormulaOp::kGt) return bool_node(a.number() > b.number());
    if (op == FormulaOp::kGe) return bool_node(a.number() >= b.number());
    const bool divides = op == FormulaOp::kDiv || op == FormulaOp::kMod;
    if (divides && b.number() == 0) return fail(node.place, "division by zero");
    if (a.is(Node::Kind::kInt) && b.is(Node::Kind::kInt)) return integers(node, op, a, b);
    if (op == FormulaOp::kAdd) return float_node(a.number() + b.number());
    if (op == FormulaOp::kSub) return float_node(a.number() - b.number());
    if (op == FormulaOp::kMul) return float_node(a.number() * b.number());
    if (op == FormulaOp::kDiv) return float_node(a.number() / b.number());
    return fail(node.place, "remainder of a float");
  }

  Error remainder(const FormulaNode& node, const Node& a, const Node& b) const {
    if (a.path.empty() || b.path.empty()) {
      return fail(node.place, fmt::format("{} / {} leaves a remainder", a.integer, b.integer));
    }
    return scope_.config->error(
        a.place, fmt::format("{} is {}, expected a multiple of {} {}", a.path, a.integer, b.path, b.integer));
  }

  Result<Node> integers(const FormulaNode& node, FormulaOp op, const Node& lhs, const Node& rhs) const {
    const int64_t a = lhs.integer, b = rhs.integer;
    int64_t value = 0;
    bool overflow = false;
    if (op == FormulaOp::kAdd) overflow = __builtin_add_overflow(a, b, &value);
    if (op == FormulaOp::kSub) overflow = __builtin_sub_overflow(a, b, &value);
    if (op == FormulaOp::kMul) overflow = __builtin_mul_overflow(a, b, &value);
    if (op == FormulaOp::kDiv || op == FormulaOp::kMod) {
      overflow = a == INT64_MIN && b == -1;
      if (!overflow && op == FormulaOp::kMod) value = a % b;
      if (!overflow && op == FormulaOp::kDiv) {
        if (a % b != 0) return remainder(node, lhs, rhs);
        value = a / b;
      }
    }
    if (overflow) return fail(node.place, "integer overflow");
    return int_node(value);
  }
};

}  // namespace

Result<Node> evaluate(const Formula& formula, const Scope& scope) {
  return Evaluator(formula, scope).value(formula.nodes.size() - 1);
}

Result<bool> evaluate_bool(const Formula& formula, const Scope& scope) {
  return Evaluator(formula, scope).boolean(formula.nodes.size() - 1);
}

Result<int64_t> evaluate_int(const Formula& formula, const Scope& scope) {
  const Evaluator evaluator(formula, scope);
  const size_t root = formula.nodes.size() - 1;
  MKC_TRY(result, evaluator.value(root));
  if (result.is(Node::Kind::kInt)) return result.integer;
  return evaluator.wrong_type(root, result, "an int");
}

Node config_value(const Document& config, std::string_view path) {
  const Node* node = &config.root;
  std::string_view rest = path;
  while (node && !rest.empty()) {
    const size_t dot = rest.find('.');
    node = find(*node, rest.substr(0, dot));
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  }
  Node value = node ? *node : null_node();
  value.path = path;
  return value;
}

Error missing_key(const Scope& scope, const std::string& path, Place needed_at) {
  return error_at({scope.config->source.path},
                  fmt::format("missing key \"{}\", needed by {}:{}:{}", path, scope.family->source.path,
                              needed_at.line, needed_at.col));
}

}  // namespace mkc
