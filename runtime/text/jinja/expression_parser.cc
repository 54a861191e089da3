#include "runtime/text/jinja/expression_parser.h"

#include <algorithm>
#include <utility>

#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/syntax.h"

namespace mkrt::jinja {

bool ExpressionParser::at_tuple_end(const TupleRules& rules) const {
  if (tokens_.at(TokenKind::kPrintEnd) || tokens_.at(TokenKind::kBlockEnd) || tokens_.at_operator(")"))
    return true;
  return !rules.end_name.empty() && tokens_.at_name(rules.end_name);
}

ExpressionPtr ExpressionParser::tuple(const TupleRules& rules) {
  uint32_t line = tokens_.line();
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (at_tuple_end(rules)) break;
    items.push_back(rules.primaries     ? primary(rules.namespaces)
                    : rules.conditional ? expression()
                                        : or_operation());
    if (!tokens_.at_operator(",")) break;
    is_tuple = true;
    line = tokens_.line();
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !rules.parentheses)
    fail_at(tokens_.line(), "found {}, expected an expression", tokens_.current().describe());
  return make_expression(ExpressionKind::kTuple, line, std::move(items));
}

ExpressionPtr ExpressionParser::tuple(bool conditional) {
  return tuple(TupleRules{.conditional = conditional});
}

ExpressionPtr ExpressionParser::target(bool namespaces, std::string_view end_name) {
  ExpressionPtr target = tuple(TupleRules{.primaries = true, .namespaces = namespaces, .end_name = end_name});
  check_target(*target);
  return target;
}

ExpressionPtr ExpressionParser::name_target() {
  const Token& token = tokens_.expect_name();
  if (is_constant_name(token.text)) fail_at(token.line, "cannot assign to {}", token.text);
  ExpressionPtr target = make_expression(ExpressionKind::kName, token.line);
  target->text = token.text;
  return target;
}

ExpressionPtr ExpressionParser::expression() {
  const SyntaxLevel level(depth_, tokens_.line());
  uint32_t line = tokens_.line();
  ExpressionPtr value = or_operation();
  while (tokens_.skip_name("if")) {
    ExpressionPtr condition = or_operation();
    ExpressionPtr otherwise = tokens_.skip_name("else") ? expression() : nullptr;
    value = make_expression(ExpressionKind::kConditional, line, std::move(value), std::move(condition),
                            std::move(otherwise));
    line = tokens_.line();
  }
  return value;
}

ExpressionPtr ExpressionParser::without_conditional() {
  return tuple(TupleRules{.conditional = false, .end_name = "recursive"});
}

ExpressionPtr ExpressionParser::or_operation() {
  const uint32_t line = tokens_.line();
  ExpressionPtr left = and_operation();
  while (tokens_.skip_name("or"))
    left = make_expression(ExpressionKind::kOr, line, std::move(left), and_operation());
  return left;
}

ExpressionPtr ExpressionParser::and_operation() {
  const uint32_t line = tokens_.line();
  ExpressionPtr left = not_operation();
  while (tokens_.skip_name("and"))
    left = make_expression(ExpressionKind::kAnd, line, std::move(left), not_operation());
  return left;
}

ExpressionPtr ExpressionParser::not_operation() {
  const uint32_t line = tokens_.line();
  if (!tokens_.skip_name("not")) return comparison();
  const SyntaxLevel level(depth_, line);
  return make_expression(ExpressionKind::kNot, line, not_operation());
}

bool ExpressionParser::comparison_operator(Operator& op) {
  constexpr std::pair<std::string_view, Operator> kSigns[] = {
      {"==", Operator::kEqual},     {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
      {"<=", Operator::kLessEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterEqual}};
  for (const auto& [sign, found] : kSigns) {
    if (!tokens_.skip_operator(sign)) continue;
    op = found;
    return true;
  }
  const bool negated = tokens_.at_name("not") && tokens_.next().is_name("in");
  if (negated) tokens_.take();
  op = negated ? Operator::kNotIn : Operator::kIn;
  return tokens_.skip_name("in");
}

ExpressionPtr ExpressionParser::comparison() {
  const uint32_t line = tokens_.line();
  std::vector<ExpressionPtr> items;
  std::vector<Operator> operators;
  items.push_back(sum());
  for (Operator op; comparison_operator(op);) {
    operators.push_back(op);
    items.push_back(sum());
  }
  if (operators.empty()) return std::move(items[0]);
  ExpressionPtr compare = make_expression(ExpressionKind::kCompare, line, std::move(items));
  compare->operators = std::move(operators);
  return compare;
}

ExpressionPtr ExpressionParser::sum() {
  const uint32_t line = tokens_.line();
  ExpressionPtr left = concatenation();
  while (tokens_.at_operator("+") || tokens_.at_operator("-")) {
    const Operator op = tokens_.take().text == "+" ? Operator::kAdd : Operator::kSubtract;
    left = make_binary(op, line, std::move(left), concatenation());
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  const uint32_t line = tokens_.line();
  std::vector<ExpressionPtr> items;
  items.push_back(product());
  while (tokens_.skip_operator("~")) items.push_back(product());
  if (items.size() == 1) return std::move(items[0]);
  return make_expression(ExpressionKind::kConcat, line, std::move(items));
}

ExpressionPtr ExpressionParser::product() {
  constexpr std::pair<std::string_view, Operator> kSigns[] = {{"*", Operator::kMultiply},
                                                              {"/", Operator::kDivide},
                                                              {"//", Operator::kFloorDivide},
                                                              {"%", Operator::kModulo}};
  const uint32_t line = tokens_.line();
  ExpressionPtr left = power();
  while (true) {
    const auto* sign = std::find_if(std::begin(kSigns), std::end(kSigns),
                                    [&](const auto& entry) { return tokens_.at_operator(entry.first); });
    if (sign == std::end(kSigns)) return left;
    tokens_.take();
    left = make_binary(sign->second, line, std::move(left), power());
  }
}

ExpressionPtr ExpressionParser::power() {
  const uint32_t line = tokens_.line();
  ExpressionPtr left = unary(true);
  while (tokens_.skip_operator("**"))
    left = make_binary(Operator::kPower, line, std::move(left), unary(true));
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const uint32_t line = tokens_.line();
  const SyntaxLevel level(depth_, line);
  ExpressionPtr value;
  if (tokens_.skip_operator("-"))
    value = make_expression(ExpressionKind::kNegative, line, unary(false));
  else if (tokens_.skip_operator("+"))
    value = make_expression(ExpressionKind::kPositive, line, unary(false));
  else
    value = primary(false);
  value = postfix(std::move(value));
  return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::primary(bool namespaces) {
  const SyntaxLevel level(depth_, tokens_.line());
  const Token& token = tokens_.current();
  if (token.kind == Token::Kind::kName) return name(namespaces);
  if (token.kind == Token::Kind::kString) return string();
  if (token.kind == Token::Kind::kInteger || token.kind == Token::Kind::kFloat) {
    ExpressionPtr number = make_expression(
        token.kind == Token::Kind::kInteger ? ExpressionKind::kInteger : ExpressionKind::kFloat, token.line);
    number->integer = token.integer;
    number->real = token.real;
    tokens_.take();
    return number;
  }
  if (tokens_.at_operator("[")) return list();
  if (tokens_.at_operator("{")) return dict();
  if (!tokens_.skip_operator("(")) fail_at(token.line, "found {}, expected an expression", token.describe());
  ExpressionPtr inner = tuple(TupleRules{.parentheses = true});
  tokens_.expect_operator(")");
  return inner;
}

ExpressionPtr ExpressionParser::name(bool namespaces) {
  const Token& token = tokens_.take();
  if (token.text == "none" || token.text == "None") return make_expression(ExpressionKind::kNone, token.line);
  if (is_constant_name(token.text)) {
    ExpressionPtr constant = make_expression(ExpressionKind::kBoolean, token.line);
    constant->boolean = token.text == "true" || token.text == "True";
    return constant;
  }
  if (token.text == "self") fail_at(token.line, "unsupported: self, which refers to blocks");
  ExpressionPtr name = make_expression(ExpressionKind::kName, token.line);
  name->text = token.text;
  if (namespaces && tokens_.skip_operator(".")) {
    name->kind = ExpressionKind::kNamespaceTarget;
    name->attribute = tokens_.expect_name().text;
  }
  return name;
}

ExpressionPtr ExpressionParser::string() {
  ExpressionPtr string = make_expression(ExpressionKind::kString, tokens_.line());
  while (tokens_.at(Token::Kind::kString)) string->text += tokens_.take().text;
  return string;
}

ExpressionPtr ExpressionParser::list() {
  const uint32_t line = tokens_.take().line;
  std::vector<ExpressionPtr> items;
  while (!tokens_.at_operator("]")) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator("]")) break;
    items.push_back(expression());
  }
  tokens_.expect_operator("]");
  return make_expression(ExpressionKind::kList, line, std::move(items));
}

ExpressionPtr ExpressionParser::dict() {
  const uint32_t line = tokens_.take().line;
  std::vector<ExpressionPtr> items;
  while (!tokens_.at_operator("}")) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator("}")) break;
    items.push_back(expression());
    tokens_.expect_operator(":");
    items.push_back(expression());
  }
  tokens_.expect_operator("}");
  return make_expression(ExpressionKind::kDict, line, std::move(items));
}

}  // namespace mkrt::jinja
