// Macros and other values are called here.
#include "runtime/text/jinja/dict.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/interpreter.h"

namespace mkrt::jinja {

Value Interpreter::call(const Value& callee, Call& arguments) {
  const Level level(arena_);
  if (callee.is(ValueKind::kFunction)) {
    const Function& function = callee.function();
    arguments.name = function.name;
    arguments.receiver = function.receiver;
    return function.code(arguments);
  }
  if (callee.is(ValueKind::kMacro)) return call_macro(callee.macro(), arguments);
  if (callee.is(ValueKind::kJoiner)) return call_joiner(callee.joiner(), arguments);
  if (callee.is_undefined()) fail("{}", callee.undefined().message);
  fail("{} cannot be called", callee.described());
}

Value Interpreter::call_joiner(Joiner& joiner, const Call& arguments) {
  arguments.finish();
  if (joiner.is_used) return joiner.separator;
  joiner.is_used = true;
  return arena_.text("");
}

Value Interpreter::call_macro(const Macro& macro, Call& arguments) {
  arguments.name = macro.statement.text;
  Scope& scope = *arena_.make<Scope>(macro.statement.body_symbols.names.size() * 64,
                                     macro.statement.body_symbols, macro.scope);
  enter(scope);
  std::string around = std::exchange(output_, {});
  bind_parameters(macro.statement, arguments, scope);
  (void)run(macro.statement.body, scope);
  return arena_.text(std::exchange(output_, std::move(around)));
}

// Gives the parameters of a macro their values. Defaults may use the parameters before them.
void Interpreter::bind_parameters(const Statement& macro, Call& arguments, Scope& scope) {
  const size_t count = macro.targets.size();
  const size_t first_default = count - macro.values.size();
  const uint32_t caller_line = line_;
  std::vector<Value> given;
  bool takes_caller = macro.reads_caller;
  for (const ExpressionPtr& parameter : macro.targets) {
    given.push_back(arguments.take(parameter->text, Value()));
    takes_caller &= parameter->text != "caller";
  }
  if (takes_caller)
    scope.values["caller"] =
        arguments.take_keyword("caller", arena_.undefined("the macro was called without a body"));
  if (macro.reads_keywords) {
    Dict* keywords = arena_.make<Dict>(0);
    for (const auto& [name, value] : arguments.keywords) put(arena_, *keywords, arena_.text(name), value);
    scope.values["kwargs"] = keywords;
    arguments.keywords.clear();
  }
  if (macro.reads_rest) scope.values["varargs"] = arena_.tuple(arguments.take_rest());
  arguments.finish();
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = macro.targets[i]->text;
    if (given[i].is(ValueKind::kMissing) && i >= first_default)
      given[i] = evaluate(*macro.values[i - first_default], scope);
    if (given[i].is(ValueKind::kMissing))
      given[i] = arena_.undefined("the parameter " + name + " was not provided");
    scope.values[name] = given[i];
  }
  line_ = caller_line;
}

}  // namespace mkrt::jinja
