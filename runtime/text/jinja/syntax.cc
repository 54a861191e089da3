#include "runtime/text/jinja/syntax.h"

#include <algorithm>
#include <utility>

namespace mkrt::jinja {

void set_depth(Expression& expression) {
  uint32_t depth = 0;
  const auto add = [&](const ExpressionPtr& operand) {
    if (operand) depth = std::max(depth, operand->depth);
  };
  for (const ExpressionPtr& item : expression.items) add(item);
  for (const Keyword& keyword : expression.keywords) add(keyword.value);
  add(expression.star);
  add(expression.star_star);
  if (depth >= kMaxSyntaxDepth)
    fail_at(expression.line, "the expression is nested more than {} levels deep", kMaxSyntaxDepth);
  expression.depth = depth + 1;
}

ExpressionPtr make_expression(ExpressionKind kind, uint32_t line, std::vector<ExpressionPtr> items) {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = line;
  expression->items = std::move(items);
  set_depth(*expression);
  return expression;
}

ExpressionPtr make_binary(Operator op, uint32_t line, ExpressionPtr left, ExpressionPtr right) {
  ExpressionPtr binary = make_expression(ExpressionKind::kBinary, line, std::move(left), std::move(right));
  binary->operators.push_back(op);
  return binary;
}

bool is_constant_name(std::string_view name) {
  constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
  return std::find(std::begin(kConstants), std::end(kConstants), name) != std::end(kConstants);
}

void check_target(const Expression& target) {
  if (target.kind == ExpressionKind::kName || target.kind == ExpressionKind::kNamespaceTarget) return;
  if (target.kind != ExpressionKind::kTuple)
    fail_at(target.line, "found an expression to assign to, expected a name");
  for (const ExpressionPtr& item : target.items) check_target(*item);
}

}  // namespace mkrt::jinja
