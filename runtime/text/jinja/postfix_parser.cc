// Attributes, items, calls, filters and tests follow a value in an expression.
#include <utility>

#include "runtime/text/jinja/expression_parser.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/syntax.h"

namespace mkrt::jinja {

ExpressionPtr ExpressionParser::postfix(ExpressionPtr value) {
  while (true) {
    if (tokens_.at_operator("."))
      value = attribute(std::move(value));
    else if (tokens_.at_operator("["))
      value = subscript(std::move(value));
    else if (tokens_.at_operator("("))
      value = call(std::move(value));
    else
      return value;
  }
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr value) {
  while (true) {
    if (tokens_.at_operator("|"))
      value = filters(std::move(value), false);
    else if (tokens_.at_name("is"))
      value = test(std::move(value));
    else if (tokens_.at_operator("("))
      value = call(std::move(value));
    else
      return value;
  }
}

ExpressionPtr ExpressionParser::attribute(ExpressionPtr value) {
  const uint32_t line = tokens_.take().line;
  const Token& token = tokens_.take();
  if (token.kind == Token::Kind::kInteger) {
    ExpressionPtr index = make_expression(Expression::Kind::kInteger, token.line);
    index->integer = token.integer;
    return make_expression(Expression::Kind::kItem, line, std::move(value), std::move(index));
  }
  if (token.kind != Token::Kind::kName)
    fail_at(token.line, "found {}, expected a name or a number", token.describe());
  ExpressionPtr result = make_expression(Expression::Kind::kAttribute, line, std::move(value));
  result->text = token.text;
  return result;
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr value) {
  const uint32_t line = tokens_.take().line;
  std::vector<ExpressionPtr> keys;
  ExpressionPtr result;
  while (!tokens_.at_operator("]")) {
    if (!keys.empty()) tokens_.expect_operator(",");
    ExpressionPtr key = tokens_.at_operator(":") ? nullptr : expression();
    if (tokens_.at_operator(":")) {
      if (!keys.empty()) fail_at(line, "unsupported: a slice inside a tuple of indices");
      result = slice(std::move(value), std::move(key), line);
      if (tokens_.at_operator(",")) fail_at(line, "unsupported: a slice inside a tuple of indices");
      break;
    }
    keys.push_back(std::move(key));
  }
  tokens_.expect_operator("]");
  if (result) return result;
  ExpressionPtr key = keys.size() == 1 ? std::move(keys[0])
                                       : make_expression(Expression::Kind::kTuple, line, std::move(keys));
  return make_expression(Expression::Kind::kItem, line, std::move(value), std::move(key));
}

// Reads the rest of a slice from its first colon on.
ExpressionPtr ExpressionParser::slice(ExpressionPtr value, ExpressionPtr start, uint32_t line) {
  std::vector<ExpressionPtr> items;
  items.push_back(std::move(value));
  items.push_back(std::move(start));
  while (items.size() < 4) {
    const bool begins = items.size() == 2 || tokens_.at_operator(":");
    if (begins) tokens_.expect_operator(":");
    const bool is_empty =
        !begins || tokens_.at_operator(":") || tokens_.at_operator("]") || tokens_.at_operator(",");
    items.push_back(is_empty ? nullptr : expression());
  }
  return make_expression(Expression::Kind::kSlice, line, std::move(items));
}

ExpressionPtr ExpressionParser::call(ExpressionPtr callee) {
  ExpressionPtr call = make_expression(Expression::Kind::kCall, tokens_.line(), std::move(callee));
  arguments(*call);
  set_depth(*call);
  return call;
}

void ExpressionParser::arguments(Expression& call) {
  const uint32_t line = tokens_.line();
  tokens_.expect_operator("(");
  for (bool comma = false; !tokens_.at_operator(")"); comma = true) {
    if (comma) tokens_.expect_operator(",");
    if (comma && tokens_.at_operator(")")) break;
    argument(call, line);
  }
  tokens_.expect_operator(")");
}

void ExpressionParser::argument(Expression& call, uint32_t line) {
  const auto check = [&](bool is_allowed) {
    if (!is_allowed) fail_at(line, "the arguments of the call are out of order");
  };
  if (tokens_.skip_operator("*")) {
    check(!call.star && !call.star_star);
    call.star = expression();
  } else if (tokens_.skip_operator("**")) {
    check(!call.star_star);
    call.star_star = expression();
  } else if (tokens_.at(Token::Kind::kName) && tokens_.next().is_operator("=")) {
    check(!call.star_star);
    std::string name = tokens_.take().text;
    tokens_.take();
    for (const Keyword& keyword : call.keywords)
      if (keyword.name == name) fail_at(line, "the argument {} is given twice", name);
    call.keywords.push_back({std::move(name), expression()});
  } else {
    check(!call.star && !call.star_star && call.keywords.empty());
    call.items.push_back(expression());
  }
}

std::string ExpressionParser::dotted_name() {
  std::string name = tokens_.expect_name().text;
  while (tokens_.skip_operator(".")) name += "." + tokens_.expect_name().text;
  return name;
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr input, bool bar_is_read) {
  while (bar_is_read || tokens_.skip_operator("|")) {
    bar_is_read = false;
    ExpressionPtr filter = make_expression(Expression::Kind::kFilter, tokens_.line(), std::move(input));
    filter->text = dotted_name();
    if (tokens_.at_operator("(")) arguments(*filter);
    set_depth(*filter);
    input = std::move(filter);
  }
  return input;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr value) {
  const uint32_t line = tokens_.take().line;
  const bool negated = tokens_.skip_name("not");
  ExpressionPtr test = make_expression(Expression::Kind::kTest, line, std::move(value));
  test->text = dotted_name();
  const Token::Kind kind = tokens_.current().kind;
  const bool begins_value = kind == Token::Kind::kName || kind == Token::Kind::kString ||
                            kind == Token::Kind::kInteger || kind == Token::Kind::kFloat ||
                            tokens_.at_operator("[") || tokens_.at_operator("{");
  if (tokens_.at_operator("(")) {
    arguments(*test);
  } else if (begins_value && !tokens_.at_name({"else", "or", "and"})) {
    if (tokens_.at_name("is")) fail_at(tokens_.line(), "found \"is\" behind a test, expected an operator");
    test->items.push_back(postfix(primary(false)));
  }
  set_depth(*test);
  return negated ? make_expression(Expression::Kind::kNot, line, std::move(test)) : std::move(test);
}

}  // namespace mkrt::jinja
