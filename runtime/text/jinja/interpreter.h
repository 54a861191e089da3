// The interpreter evaluates a template's syntax tree.
#pragma once

#include <string>
#include <string_view>

#include "runtime/text/jinja/arena.h"
#include "runtime/text/jinja/ast.h"
#include "runtime/text/jinja/call.h"
#include "runtime/text/jinja/scope.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Interpreter renders one template once. Its methods fault with the line that line() returns.
class Interpreter {
 public:
  // The arena and the variables must outlive the interpreter.
  Interpreter(Arena& arena, const Dict& variables) : arena_(arena), variables_(variables) {}

  std::string render(const Template& tree);

  // Returns what a function, a macro or a joiner returns. Faults: the value cannot be called.
  Value call(const Value& callee, Call& arguments);

  uint32_t line() const { return line_; }

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  // Statements (interpreter.cc):
  Flow run(const Block& block, Scope& scope);
  Flow run(const Statement& statement, Scope& scope);
  Flow run_if(const Statement& statement, Scope& scope);
  Flow run_for(const Statement& statement, Scope& scope);
  Flow run_loop_body(const Statement& statement, Loop& loop, Scope& inner);
  void run_set(const Statement& statement, Scope& scope);
  Flow run_set_block(const Statement& statement, Scope& scope);
  Flow run_filter_block(const Statement& statement, Scope& scope);
  Flow run_with(const Statement& statement, Scope& scope);
  void run_call(const Statement& statement, Scope& scope);
  void run_generation(const Statement& statement, Scope& scope);
  Advance filtered(const Statement& loop, Scope& scope, Advance advance);
  void print(const Value& value);
  void print(std::string_view text);
  void print_block(const Value& value);  // of a tag whose result has to be text

  // Names (names.cc):
  void enter(Scope& scope);
  Value variable(const std::string& name);
  Value lookup(const Expression& name, const Scope& scope);
  void assign(const Expression& target, const Value& value, Scope& scope);
  void assign_attribute(const Expression& target, const Value& value, const Scope& scope);

  // Macros (macros.cc):
  Value call_macro(const Macro& macro, Call& arguments);
  void bind_parameters(const Statement& macro, Call& arguments, Scope& scope);
  Value call_joiner(Joiner& joiner, const Call& arguments);

  // Expressions (expressions.cc):
  Value evaluate(const Expression& expression, const Scope& scope);
  Value operation(const Expression& expression, const Scope& scope);
  Value literal(const Expression& expression, const Scope& scope);
  Value item(const Expression& expression, const Scope& scope);
  Value compare_chain(const Expression& expression, const Scope& scope);
  Value concatenate(const Expression& expression, const Scope& scope);
  Value conditional(const Expression& expression, const Scope& scope);
  Value call_expression(const Expression& expression, const Scope& scope, const Value* caller);
  Value filter(const Expression& expression, const Scope& scope, const Value* input);
  Value test(const Expression& expression, const Scope& scope);
  std::vector<Value> evaluate_all(const std::vector<ExpressionPtr>& expressions, size_t from,
                                  const Scope& scope);
  void add_arguments(const Expression& expression, const Scope& scope, Call& call);

  Arena& arena_;
  const Dict& variables_;
  std::string output_;
  uint32_t line_ = 1;
};

}  // namespace mkrt::jinja
