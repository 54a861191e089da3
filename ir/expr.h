// Expressions are integers over symbols (sizes known at run time) and coordinates (of a task grid or an
// event).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/ids.h"

namespace mkc {

enum class ExprKind : uint8_t {
  kConst,
  kSymbol,
  kCoord,
  kAdd,
  kSub,
  kMul,
  kFloorDiv,
  kCeilDiv,
  kMod,
  kMin,
  kMax,
  kElement  // element of a list symbol, at the one operand
};

// ExprNode is one step of an expression in postfix order. `value` is the constant, the index of the symbol or
// list, or the position of the coordinate. `value` is 0 for other operators.
struct ExprNode {
  ExprKind kind = ExprKind::kConst;
  int64_t value = 0;
  bool operator==(const ExprNode&) const = default;
};

// An expression is a value and is compared structurally. The functions below build it; they fold constants
// and drop neutral elements. Divisions and remainders round towards minus infinity, ceil_div towards plus
// infinity. A divisor must be a positive constant or have a positive lower bound.
struct Expr {
  std::vector<ExprNode> nodes{{ExprKind::kConst, 0}};

  Expr() = default;
  Expr(int64_t constant) : nodes{{ExprKind::kConst, constant}} {}
  bool is_const() const { return nodes.size() == 1 && nodes[0].kind == ExprKind::kConst; }
  bool is_const(int64_t value) const { return is_const() && nodes[0].value == value; }
  int64_t constant() const { return nodes[0].value; }  // requires is_const()
  bool operator==(const Expr&) const = default;
};

// Tells whether a node of this kind has no operands.
bool is_leaf(ExprKind kind);
// Returns the number of operands of an operator: 1 or 2.
size_t operand_count(ExprKind kind);

// The functions below build expressions: a symbol, an element of a list, a coordinate by position, and
// operators.
Expr symbol(SymbolId id);
Expr element(SymbolId list, const Expr& index);
Expr coord(uint32_t position);
Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr floor_div(const Expr& a, const Expr& b);
Expr ceil_div(const Expr& a, const Expr& b);
Expr mod(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);

// Returns the value of `e` under the given values of symbols and coordinates. `symbols` is by symbol index. A
// list's entry says where in `symbols` its elements begin (ir/values.h).
int64_t evaluate(const Expr& e, std::span<const int64_t> symbols, std::span<const int64_t> coords = {});

// Inclusive bounds.
struct Bounds {
  int64_t lo = 0, hi = 0;
  bool operator==(const Bounds&) const = default;
};

// Returns bounds by interval arithmetic. The bounds enclose every value of `e` but are not always tight. The
// bounds of a list are those of each element.
Bounds bounds(const Expr& e, std::span<const Bounds> symbols, std::span<const Bounds> coords = {});

// Returns `e` with coordinate i replaced by coords[i].
Expr substitute(const Expr& e, std::span<const Expr> coords);
// Tell whether the expression mentions a symbol (lists included) or a coordinate.
bool uses_symbol(const Expr& e);
bool uses_coord(const Expr& e);

// Returns infix text with minimal parentheses: `16*j + 8`, `kv_len[b] ceildiv 256`, `min(a, b)`, `a floordiv
// 2`, `a mod 2`.
std::string to_string(const Expr& e, std::span<const std::string> symbol_names,
                      std::span<const std::string> coord_names = {});

}  // namespace mkc
