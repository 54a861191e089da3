#include <fmt/format.h>

#include <algorithm>

#include "ir/parser.h"

namespace mkc {
namespace {

constexpr int kMaxDepth = 100;      // nested parentheses
constexpr size_t kMaxNodes = 1000;  // nodes of one expression

struct BinaryOperator {
  const char* text;
  ExprKind kind;
  int precedence;  // higher binds tighter
};
constexpr BinaryOperator kOperators[] = {
    {"+", ExprKind::kAdd, 1},           {"-", ExprKind::kSub, 1},
    {"*", ExprKind::kMul, 2},           {"floordiv", ExprKind::kFloorDiv, 2},
    {"ceildiv", ExprKind::kCeilDiv, 2}, {"mod", ExprKind::kMod, 2},
};

const BinaryOperator* operator_at(const Token& token) {
  for (const BinaryOperator& op : kOperators)
    if (token.is(op.text)) return &op;
  return nullptr;
}

}  // namespace

// Parses an expression. Nodes are appended as written, without folding, so that the value equals the printed
// one.
Expr Parser::expr() {
  Expr out;
  out.nodes.clear();
  const Token begin = peek();
  operators(out, 0, 1);
  if (out.nodes.size() > kMaxNodes)
    fail(begin, fmt::format("expression of {} terms and operators, at most {}", out.nodes.size(), kMaxNodes));
  return error ? Expr(0) : out;
}

// Parses operands joined by operators of at least `least_precedence`. Operators of one precedence group to
// the left.
void Parser::operators(Expr& out, int depth, int least_precedence) {
  operand(out, depth);
  for (const BinaryOperator* op = operator_at(peek()); op && op->precedence >= least_precedence;
       op = operator_at(peek())) {
    take();
    operators(out, depth, op->precedence + 1);
    out.nodes.push_back({op->kind, 0});
  }
}

void Parser::operand(Expr& out, int depth) {
  const Token token = peek();
  if (depth > kMaxDepth) return fail(token, fmt::format("more than {} nested parentheses", kMaxDepth));
  if (accept("min")) return function(out, depth, ExprKind::kMin);
  if (accept("max")) return function(out, depth, ExprKind::kMax);
  if (accept("(")) {
    operators(out, depth + 1, 1);
    return expect(")");
  }
  if (accept("$")) return out.nodes.push_back({ExprKind::kCoord, int64_t{natural32()}});
  if (accept("#")) return symbol_operand(out, depth, natural32());
  if (token.kind == TokenKind::kInt || token.is("-"))
    return out.nodes.push_back({ExprKind::kConst, integer(INT64_MIN, INT64_MAX)});
  if (operator_at(token) || (token.kind != TokenKind::kWord && token.kind != TokenKind::kString))
    return fail_expected("a number, a symbol, a coordinate or '('");
  take();
  const auto found = std::find(coords.begin(), coords.end(), token.text);
  if (found != coords.end())
    out.nodes.push_back({ExprKind::kCoord, found - coords.begin()});
  else
    symbol_operand(out, depth, find(token, symbols));
}

// Parses the rest of a symbol operand. An index in brackets makes it a list element.
void Parser::symbol_operand(Expr& out, int depth, uint32_t symbol) {
  if (!accept("[")) return out.nodes.push_back({ExprKind::kSymbol, int64_t{symbol}});
  operators(out, depth + 1, 1);
  expect("]");
  out.nodes.push_back({ExprKind::kElement, int64_t{symbol}});
}

void Parser::function(Expr& out, int depth, ExprKind kind) {
  expect("(");
  operators(out, depth + 1, 1);
  expect(",");
  operators(out, depth + 1, 1);
  expect(")");
  out.nodes.push_back({kind, 0});
}

std::vector<Expr> Parser::expr_list() {
  std::vector<Expr> out;
  expect("[");
  if (accept("]")) return out;
  do out.push_back(expr());
  while (accept(","));
  expect("]");
  return out;
}

Region Parser::region() {
  Region out;
  expect("[");
  if (accept("]")) return out;
  do {
    Range range;
    range.offset = expr();
    expect(":+");
    range.size = expr();
    out.push_back(std::move(range));
  } while (accept(","));
  expect("]");
  return out;
}

}  // namespace mkc
