#include "runtime/text/jinja/check.h"

#include "runtime/text/jinja/filters.h"
#include "runtime/text/jinja/predicates.h"

namespace mkrt::jinja {
namespace {

void check_expression(const Expression* expression, bool is_conditional) {
  if (expression == nullptr) return;
  if (expression->kind == Expression::Kind::kConditional) is_conditional = true;
  if (expression->kind == Expression::Kind::kFilter && !is_conditional)
    (void)find_filter(expression->text, expression->line);
  if (expression->kind == Expression::Kind::kTest && !is_conditional)
    (void)find_predicate(expression->text, expression->line);
  for (const ExpressionPtr& item : expression->items) check_expression(item.get(), is_conditional);
  for (const Keyword& keyword : expression->keywords) check_expression(keyword.value.get(), is_conditional);
  check_expression(expression->star.get(), is_conditional);
  check_expression(expression->star_star.get(), is_conditional);
}

void check_block(const Block& block, bool is_conditional);

// `if` makes what it holds conditional. A block that opens a scope ends that, as in Jinja2.
void check_statement(const Statement& statement, bool is_conditional) {
  const bool values_inside =
      statement.kind == StatementKind::kMacro || statement.kind == StatementKind::kCall;
  for (const ExpressionPtr& value : statement.values)
    check_expression(value.get(), is_conditional && !values_inside);
  check_expression(statement.value.get(), is_conditional);
  check_expression(statement.condition.get(), false);
  check_expression(statement.filter.get(), false);
  for (const Branch& branch : statement.branches) {
    check_expression(branch.condition.get(), true);
    check_block(branch.body, true);
  }
  check_block(statement.body, false);
  check_block(statement.otherwise, statement.kind == StatementKind::kIf);
}

void check_block(const Block& block, bool is_conditional) {
  for (const auto& statement : block) check_statement(*statement, is_conditional);
}

}  // namespace

void check_names(const Template& tree) {
  check_block(tree.body, false);
}

}  // namespace mkrt::jinja
