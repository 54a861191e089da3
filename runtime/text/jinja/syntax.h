// The parsers make nodes of the syntax tree, with bounds on their depth.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/limits.h"

namespace mkrt::jinja {

// SyntaxLevel counts a level of the parser's recursion while it lives. Faults: more than kMaxSyntaxDepth
// levels.
class SyntaxLevel {
 public:
  SyntaxLevel(uint32_t& depth, uint32_t line) : depth_(depth) {
    if (depth_ >= kMaxSyntaxDepth) fail_at(line, "nested more than {} levels deep", kMaxSyntaxDepth);
    ++depth_;
  }
  SyntaxLevel(const SyntaxLevel&) = delete;
  SyntaxLevel& operator=(const SyntaxLevel&) = delete;
  ~SyntaxLevel() { --depth_; }

 private:
  uint32_t& depth_;
};

// Sets the depth from those of all operands. Faults: more than kMaxSyntaxDepth levels.
void set_depth(Expression& expression);

ExpressionPtr make_expression(Expression::Kind kind, uint32_t line, std::vector<ExpressionPtr> items = {});
ExpressionPtr make_binary(Operator op, uint32_t line, ExpressionPtr left, ExpressionPtr right);

template <class... Rest>
ExpressionPtr make_expression(Expression::Kind kind, uint32_t line, ExpressionPtr first, Rest... rest) {
  std::vector<ExpressionPtr> items;
  items.push_back(std::move(first));
  (items.push_back(std::move(rest)), ...);
  return make_expression(kind, line, std::move(items));
}

// Returns whether the name is that of a constant, such as true.
bool is_constant_name(std::string_view name);

// Faults: the expression is not something that can be assigned.
void check_target(const Expression& target);

}  // namespace mkrt::jinja
