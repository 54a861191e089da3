#include "ir/expr.h"

#include <algorithm>
#include <array>
#include <optional>

#include "ir/diag.h"

namespace mkc {
namespace {

int64_t floor_quotient(int64_t a, int64_t b) {
  MKC_ASSERT(b > 0, "division by a number that is not positive");
  const int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}

int64_t apply(ExprKind kind, int64_t a, int64_t b) {
  switch (kind) {
    case ExprKind::kConst:
    case ExprKind::kSymbol:
    case ExprKind::kCoord:
    case ExprKind::kElement:
      break;
    case ExprKind::kAdd:
      return a + b;
    case ExprKind::kSub:
      return a - b;
    case ExprKind::kMul:
      return a * b;
    case ExprKind::kFloorDiv:
      return floor_quotient(a, b);
    case ExprKind::kCeilDiv:
      return -floor_quotient(-a, b);
    case ExprKind::kMod:
      return a - floor_quotient(a, b) * b;
    case ExprKind::kMin:
      return std::min(a, b);
    case ExprKind::kMax:
      return std::max(a, b);
  }
  MKC_BUG("not an operator");
}

// Returns the result of an operator that needs no node, such as a + 0, a * 0 or min(a, a). Returns nothing
// for other operands.
std::optional<Expr> without_neutral(ExprKind kind, const Expr& a, const Expr& b) {
  if (kind == ExprKind::kAdd && a.is_const(0)) return b;
  if ((kind == ExprKind::kAdd || kind == ExprKind::kSub) && b.is_const(0)) return a;
  if (kind == ExprKind::kMul && (a.is_const(0) || b.is_const(0))) return Expr(0);
  if (kind == ExprKind::kMul && a.is_const(1)) return b;
  if ((kind == ExprKind::kMul || kind == ExprKind::kFloorDiv || kind == ExprKind::kCeilDiv) && b.is_const(1))
    return a;
  if (kind == ExprKind::kMod && b.is_const(1)) return Expr(0);
  if ((kind == ExprKind::kMin || kind == ExprKind::kMax) && a == b) return a;
  return std::nullopt;
}

Expr binary(ExprKind kind, const Expr& a, const Expr& b) {
  if (a.is_const() && b.is_const()) return Expr(apply(kind, a.constant(), b.constant()));
  if (std::optional<Expr> same = without_neutral(kind, a, b)) return *std::move(same);
  Expr e;
  e.nodes = a.nodes;
  e.nodes.insert(e.nodes.end(), b.nodes.begin(), b.nodes.end());
  e.nodes.push_back({kind, 0});
  return e;
}

Expr leaf(ExprKind kind, int64_t value) {
  Expr e;
  e.nodes = {{kind, value}};
  return e;
}

Bounds apply_bounds(ExprKind kind, Bounds a, Bounds b) {
  if (kind == ExprKind::kMod) {
    const bool one_period = a.lo >= 0 && a.hi < b.lo;
    return one_period ? a : Bounds{0, b.hi - 1};
  }
  // Every other operator is monotone in each operand, so the extremes lie at corners.
  const std::array<int64_t, 4> corners = {apply(kind, a.lo, b.lo), apply(kind, a.lo, b.hi),
                                          apply(kind, a.hi, b.lo), apply(kind, a.hi, b.hi)};
  const auto [lo, hi] = std::minmax_element(corners.begin(), corners.end());
  return {*lo, *hi};
}

// Evaluates the postfix expression. `leaf_value(node)` returns a leaf's value, `element_of(node, index)` that
// of a list element. `combine(kind, a, b)` returns the value of any other operator.
template <class Value, class LeafValue, class ElementOf, class Combine>
Value fold(const Expr& e, LeafValue leaf_value, ElementOf element_of, Combine combine) {
  std::vector<Value> stack;
  stack.reserve(8);
  for (const ExprNode& node : e.nodes) {
    if (is_leaf(node.kind)) {
      stack.push_back(leaf_value(node));
      continue;
    }
    MKC_ASSERT(stack.size() >= operand_count(node.kind), "operator without its operands");
    if (node.kind == ExprKind::kElement) {
      stack.back() = element_of(node, stack.back());
      continue;
    }
    Value b = std::move(stack.back());
    stack.pop_back();
    stack.back() = combine(node.kind, stack.back(), b);
  }
  MKC_ASSERT(stack.size() == 1, "expression that leaves no single value");
  return std::move(stack.back());
}

struct Spelling {
  const char* text;  // text between the operands, or the name of a function
  int precedence;    // higher binds tighter; 0: a function
};

Spelling spelling(ExprKind kind) {
  switch (kind) {
    case ExprKind::kConst:
    case ExprKind::kSymbol:
    case ExprKind::kCoord:
    case ExprKind::kElement:
      break;
    case ExprKind::kAdd:
      return {" + ", 1};
    case ExprKind::kSub:
      return {" - ", 1};
    case ExprKind::kMul:
      return {"*", 2};
    case ExprKind::kFloorDiv:
      return {" floordiv ", 2};
    case ExprKind::kCeilDiv:
      return {" ceildiv ", 2};
    case ExprKind::kMod:
      return {" mod ", 2};
    case ExprKind::kMin:
      return {"min", 0};
    case ExprKind::kMax:
      return {"max", 0};
  }
  MKC_BUG("not an operator");
}

}  // namespace

bool is_leaf(ExprKind kind) {
  return kind <= ExprKind::kCoord;
}
size_t operand_count(ExprKind kind) {
  return kind == ExprKind::kElement ? 1 : 2;
}

Expr symbol(SymbolId id) {
  return leaf(ExprKind::kSymbol, id.index);
}
Expr element(SymbolId list, const Expr& index) {
  Expr e = index;
  e.nodes.push_back({ExprKind::kElement, list.index});
  return e;
}
Expr coord(uint32_t position) {
  return leaf(ExprKind::kCoord, position);
}
Expr operator+(const Expr& a, const Expr& b) {
  return binary(ExprKind::kAdd, a, b);
}
Expr operator-(const Expr& a, const Expr& b) {
  return binary(ExprKind::kSub, a, b);
}
Expr operator*(const Expr& a, const Expr& b) {
  return binary(ExprKind::kMul, a, b);
}
Expr floor_div(const Expr& a, const Expr& b) {
  return binary(ExprKind::kFloorDiv, a, b);
}
Expr ceil_div(const Expr& a, const Expr& b) {
  return binary(ExprKind::kCeilDiv, a, b);
}
Expr mod(const Expr& a, const Expr& b) {
  return binary(ExprKind::kMod, a, b);
}
Expr min(const Expr& a, const Expr& b) {
  return binary(ExprKind::kMin, a, b);
}
Expr max(const Expr& a, const Expr& b) {
  return binary(ExprKind::kMax, a, b);
}

int64_t evaluate(const Expr& e, std::span<const int64_t> symbols, std::span<const int64_t> coords) {
  if (e.is_const()) return e.constant();
  return fold<int64_t>(
      e,
      [&](const ExprNode& node) {
        if (node.kind == ExprKind::kConst) return node.value;
        return (node.kind == ExprKind::kSymbol ? symbols : coords)[static_cast<size_t>(node.value)];
      },
      [&](const ExprNode& node, int64_t index) {
        return symbols[static_cast<size_t>(symbols[static_cast<size_t>(node.value)] + index)];
      },
      apply);
}

Bounds bounds(const Expr& e, std::span<const Bounds> symbols, std::span<const Bounds> coords) {
  return fold<Bounds>(
      e,
      [&](const ExprNode& node) {
        if (node.kind == ExprKind::kConst) return Bounds{node.value, node.value};
        return (node.kind == ExprKind::kSymbol ? symbols : coords)[static_cast<size_t>(node.value)];
      },
      [&](const ExprNode& node, const Bounds&) { return symbols[static_cast<size_t>(node.value)]; },
      apply_bounds);
}

Expr substitute(const Expr& e, std::span<const Expr> coords) {
  return fold<Expr>(
      e,
      [&](const ExprNode& node) {
        return node.kind == ExprKind::kCoord ? coords[static_cast<size_t>(node.value)]
                                             : leaf(node.kind, node.value);
      },
      [](const ExprNode& node, const Expr& index) {
        return element(SymbolId{static_cast<uint32_t>(node.value)}, index);
      },
      binary);
}

bool uses_symbol(const Expr& e) {
  return std::any_of(e.nodes.begin(), e.nodes.end(), [](const ExprNode& node) {
    return node.kind == ExprKind::kSymbol || node.kind == ExprKind::kElement;
  });
}

bool uses_coord(const Expr& e) {
  return std::any_of(e.nodes.begin(), e.nodes.end(),
                     [](const ExprNode& node) { return node.kind == ExprKind::kCoord; });
}

std::string to_string(const Expr& e, std::span<const std::string> symbol_names,
                      std::span<const std::string> coord_names) {
  struct Text {
    std::string text;
    int precedence = 3;
  };
  const auto leaf_text = [&](const ExprNode& node) -> Text {
    if (node.kind == ExprKind::kConst) return {std::to_string(node.value), node.value < 0 ? 1 : 3};
    return {(node.kind == ExprKind::kSymbol ? symbol_names : coord_names)[static_cast<size_t>(node.value)]};
  };
  const auto element_text = [&](const ExprNode& node, const Text& index) -> Text {
    return {symbol_names[static_cast<size_t>(node.value)] + "[" + index.text + "]"};
  };
  const auto combine = [](ExprKind kind, const Text& a, const Text& b) -> Text {
    const auto [name, precedence] = spelling(kind);
    if (precedence == 0) return {std::string(name) + "(" + a.text + ", " + b.text + ")"};
    const auto wrap = [](const Text& t, bool needed) { return needed ? "(" + t.text + ")" : t.text; };
    // Operators of one precedence group to the left.
    return {wrap(a, a.precedence < precedence) + name + wrap(b, b.precedence <= precedence), precedence};
  };
  return fold<Text>(e, leaf_text, element_text, combine).text;
}

}  // namespace mkc
