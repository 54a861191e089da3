// Expressions are evaluated here.
#include <utility>

#include "runtime/text/jinja/arithmetic.h"
#include "runtime/text/jinja/attributes.h"
#include "runtime/text/jinja/compare.h"
#include "runtime/text/jinja/dict.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/filters.h"
#include "runtime/text/jinja/interpreter.h"
#include "runtime/text/jinja/iterate.h"
#include "runtime/text/jinja/number.h"
#include "runtime/text/jinja/predicates.h"
#include "runtime/text/jinja/print.h"

namespace mkrt::jinja {

Value Interpreter::evaluate(const Expression& expression, const Scope& scope) {
  const Level level(arena_);
  line_ = expression.line;
  switch (expression.kind) {
    case ExpressionKind::kNone:
    case ExpressionKind::kBoolean:
    case ExpressionKind::kInteger:
    case ExpressionKind::kFloat:
    case ExpressionKind::kString:
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
    case ExpressionKind::kDict:
      return literal(expression, scope);
    case ExpressionKind::kName:
    case ExpressionKind::kNamespaceTarget:
      return lookup(expression, scope);
    case ExpressionKind::kAttribute:
    case ExpressionKind::kItem:
    case ExpressionKind::kSlice:
      return item(expression, scope);
    case ExpressionKind::kCall:
      return call_expression(expression, scope, nullptr);
    case ExpressionKind::kFilter:
      return filter(expression, scope, nullptr);
    case ExpressionKind::kTest:
      return test(expression, scope);
    case ExpressionKind::kCompare:
      return compare_chain(expression, scope);
    case ExpressionKind::kConcat:
      return concatenate(expression, scope);
    case ExpressionKind::kConditional:
      return conditional(expression, scope);
    case ExpressionKind::kNot:
    case ExpressionKind::kNegative:
    case ExpressionKind::kPositive:
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
    case ExpressionKind::kBinary:
      return operation(expression, scope);
  }
  return {};
}

std::vector<Value> Interpreter::evaluate_all(const std::vector<ExpressionPtr>& expressions, size_t from,
                                             const Scope& scope) {
  std::vector<Value> values;
  for (size_t i = from; i < expressions.size(); ++i) values.push_back(evaluate(*expressions[i], scope));
  return values;
}

Value Interpreter::literal(const Expression& expression, const Scope& scope) {
  switch (expression.kind) {
    case ExpressionKind::kNone:
      return Value::none();
    case ExpressionKind::kBoolean:
      return Value::boolean(expression.boolean);
    case ExpressionKind::kInteger:
      return Value::integer(expression.integer);
    case ExpressionKind::kFloat:
      return Value::real(expression.real);
    case ExpressionKind::kString:
      return arena_.text(expression.text);
    case ExpressionKind::kList:
      return arena_.list(evaluate_all(expression.items, 0, scope));
    case ExpressionKind::kTuple:
      return arena_.tuple(evaluate_all(expression.items, 0, scope));
    default:
      break;
  }
  Dict* dict = arena_.make<Dict>(0);
  for (size_t i = 0; i < expression.items.size(); i += 2) {
    const Value key = evaluate(*expression.items[i], scope);
    put(arena_, *dict, key, evaluate(*expression.items[i + 1], scope));
  }
  return dict;
}

Value Interpreter::operation(const Expression& expression, const Scope& scope) {
  const Value left = evaluate(*expression.items[0], scope);
  switch (expression.kind) {
    case ExpressionKind::kNot:
      return Value::boolean(!is_true(left));
    case ExpressionKind::kAnd:
      return is_true(left) ? evaluate(*expression.items[1], scope) : left;
    case ExpressionKind::kOr:
      return is_true(left) ? left : evaluate(*expression.items[1], scope);
    case ExpressionKind::kNegative:
      line_ = expression.line;
      return negative(left);
    case ExpressionKind::kPositive:
      line_ = expression.line;
      return positive(left);
    default:
      break;
  }
  const Value right = evaluate(*expression.items[1], scope);
  line_ = expression.line;
  return arithmetic(arena_, expression.operators[0], left, right);
}

Value Interpreter::item(const Expression& expression, const Scope& scope) {
  const Value value = evaluate(*expression.items[0], scope);
  if (expression.kind == ExpressionKind::kAttribute) {
    line_ = expression.line;
    return get_attribute(arena_, value, expression.text);
  }
  if (expression.kind == ExpressionKind::kItem) {
    const Value key = evaluate(*expression.items[1], scope);
    line_ = expression.line;
    return get_item(arena_, value, key);
  }
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    const ExpressionPtr& bound = expression.items[i + 1];
    bounds[i] = bound ? evaluate(*bound, scope) : Value::none();
  }
  line_ = expression.line;
  return get_slice(arena_, value, bounds[0], bounds[1], bounds[2]);
}

Value Interpreter::compare_chain(const Expression& expression, const Scope& scope) {
  Value left = evaluate(*expression.items[0], scope);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    const Value right = evaluate(*expression.items[i + 1], scope);
    line_ = expression.line;
    if (!compare(arena_, expression.operators[i], left, right)) return Value::boolean(false);
    left = right;
  }
  return Value::boolean(true);
}

Value Interpreter::concatenate(const Expression& expression, const Scope& scope) {
  std::string text;
  for (const Value& value : evaluate_all(expression.items, 0, scope)) {
    append_str(arena_, value, text);
    arena_.charge(value.is_text() ? value.text().bytes.size() : 0);
  }
  return arena_.text(std::move(text));
}

Value Interpreter::conditional(const Expression& expression, const Scope& scope) {
  if (is_true(evaluate(*expression.items[1], scope))) return evaluate(*expression.items[0], scope);
  if (expression.items[2]) return evaluate(*expression.items[2], scope);
  return arena_.undefined("the inline if has no else part and its condition is false");
}

void Interpreter::add_arguments(const Expression& expression, const Scope& scope, Call& call) {
  for (Value& value : evaluate_all(expression.items, 1, scope)) call.positional.push_back(value);
  for (const Keyword& keyword : expression.keywords)
    call.keywords.emplace_back(keyword.name, evaluate(*keyword.value, scope));
  if (expression.star)
    for (const Value& value : collect(arena_, evaluate(*expression.star, scope)))
      call.positional.push_back(value);
  if (!expression.star_star) return;
  const Value more = evaluate(*expression.star_star, scope);
  if (!more.is(Value::Kind::kDict)) fail("found {} behind **, expected a dict", more.described());
  for (const auto& [key, value] : more.dict().items) {
    if (!key.is_text()) fail("found {} as the name of an argument, expected text", key.described());
    for (const auto& [name, given] : call.keywords)
      if (name == key.text().bytes) fail("the argument {} is given twice", name);
    call.keywords.emplace_back(key.text().bytes, value);
  }
}

// The caller is passed to the macro, if there is one.
Value Interpreter::call_expression(const Expression& expression, const Scope& scope, const Value* caller) {
  const Value callee = evaluate(*expression.items[0], scope);
  Call arguments(arena_, "the value");
  add_arguments(expression, scope, arguments);
  if (caller != nullptr) arguments.keywords.emplace_back("caller", *caller);
  line_ = expression.line;
  return call(callee, arguments);
}

// The input is what a block has printed, or null for that of the expression itself.
Value Interpreter::filter(const Expression& expression, const Scope& scope, const Value* input) {
  const Expression* inner = expression.items.empty() ? nullptr : expression.items[0].get();
  Value value;
  if (inner == nullptr) {
    value = *input;
  } else if (input != nullptr && inner->kind == ExpressionKind::kFilter) {
    value = filter(*inner, scope, input);
  } else {
    value = evaluate(*inner, scope);
  }
  Call arguments(arena_, expression.text);
  arguments.positional.push_back(value);
  line_ = expression.line;
  const Function::Code code = find_filter(expression.text, expression.line);
  add_arguments(expression, scope, arguments);
  line_ = expression.line;
  return code(arguments);
}

Value Interpreter::test(const Expression& expression, const Scope& scope) {
  const Value value = evaluate(*expression.items[0], scope);
  Call arguments(arena_, expression.text);
  arguments.positional.push_back(value);
  const Predicate predicate = find_predicate(expression.text, expression.line);
  add_arguments(expression, scope, arguments);
  line_ = expression.line;
  return Value::boolean(predicate(arguments));
}

}  // namespace mkrt::jinja
