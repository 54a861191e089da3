// Expressions of a template are parsed from tokens to trees.
#pragma once

#include <string_view>

#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/token_stream.h"

namespace mkrt::jinja {

// ExpressionParser reads what Jinja2's parser reads, in its order of precedence.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  ExpressionPtr expression();           // with `a if b else c`
  ExpressionPtr without_conditional();  // the iterable of a loop
  // Reads expressions with commas between them as a tuple, and one expression as itself.
  ExpressionPtr tuple(bool conditional = true);
  // Reads what is assigned: names, tuples of them, and in `set` attributes of namespaces.
  ExpressionPtr target(bool namespaces, std::string_view end_name = "");
  ExpressionPtr name_target();
  // Reads filters with bars between them. `input` may be null. The first bar may be left out.
  ExpressionPtr filters(ExpressionPtr input, bool bar_is_read);

 private:
  struct TupleRules {
    bool conditional = true;
    bool primaries = false;  // names and literals only
    bool namespaces = false;
    bool parentheses = false;  // an empty tuple is valid
    std::string_view end_name = {};
  };
  ExpressionPtr tuple(const TupleRules& rules);
  bool at_tuple_end(const TupleRules& rules) const;

  ExpressionPtr or_operation();
  ExpressionPtr and_operation();
  ExpressionPtr not_operation();
  ExpressionPtr comparison();
  bool comparison_operator(Operator& op);
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary(bool namespaces);
  ExpressionPtr name(bool namespaces);
  ExpressionPtr string();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr value);
  ExpressionPtr filters_and_tests(ExpressionPtr value);
  ExpressionPtr attribute(ExpressionPtr value);
  ExpressionPtr subscript(ExpressionPtr value);
  ExpressionPtr slice(ExpressionPtr value, ExpressionPtr start, uint32_t line);
  ExpressionPtr call(ExpressionPtr callee);
  ExpressionPtr test(ExpressionPtr value);
  std::string dotted_name();
  void arguments(Expression& call);
  void argument(Expression& call, uint32_t line);

  TokenStream& tokens_;
  uint32_t depth_ = 0;
};

}  // namespace mkrt::jinja
