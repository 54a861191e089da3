#include "runtime/text/jinja/interpreter.h"

#include <utility>

#include "runtime/text/jinja/compare.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/iterate.h"
#include "runtime/text/jinja/limits.h"
#include "runtime/text/jinja/loop.h"
#include "runtime/text/jinja/print.h"

namespace mkrt::jinja {
namespace {

Scope& make_scope(Arena& arena, const Symbols& symbols, Scope* parent) {
  return *arena.make<Scope>(symbols.names.size() * 64, symbols, parent);
}

// Makes the names of a scope undefined for macros that still refer to it, as Jinja2 does at the end of a
// block.
void leave(Scope& scope) {
  for (auto& [name, value] : scope.values) value = Value();
}

}  // namespace

std::string Interpreter::render(const Template& tree) {
  Scope& scope = make_scope(arena_, tree.symbols, nullptr);
  enter(scope);
  (void)run(tree.body, scope);
  return std::move(output_);
}

void Interpreter::print(std::string_view text) {
  if (text.size() > kMaxOutputBytes - output_.size())
    fail("the output has more than {} MiB", kMaxOutputBytes >> 20);
  arena_.charge(text.size());
  output_ += text;
}

void Interpreter::print(const Value& value) {
  if (value.is_text()) return print(value.text().bytes);
  print(to_str(arena_, value));
}

void Interpreter::print_block(const Value& value) {
  if (!value.is_text()) fail("the block makes {}, expected text", value.described());
  print(value.text().bytes);
}

Interpreter::Flow Interpreter::run(const Block& block, Scope& scope) {
  for (const auto& statement : block)
    if (const Flow flow = run(*statement, scope); flow != Flow::kNext) return flow;
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Statement& statement, Scope& scope) {
  const Level level(arena_);
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::kText:
      print(statement.text);
      return Flow::kNext;
    case StatementKind::kPrint:
      for (const ExpressionPtr& value : statement.values) print(evaluate(*value, scope));
      return Flow::kNext;
    case StatementKind::kIf:
      return run_if(statement, scope);
    case StatementKind::kFor:
      return run_for(statement, scope);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
    case StatementKind::kSet:
      run_set(statement, scope);
      return Flow::kNext;
    case StatementKind::kSetBlock:
      return run_set_block(statement, scope);
    case StatementKind::kMacro:
      scope.values.insert_or_assign(statement.text, Value(arena_.make<Macro>(0, statement, &scope)));
      return Flow::kNext;
    case StatementKind::kCall:
      run_call(statement, scope);
      return Flow::kNext;
    case StatementKind::kFilter:
      return run_filter_block(statement, scope);
    case StatementKind::kWith:
      return run_with(statement, scope);
    case StatementKind::kGeneration:
      run_generation(statement, scope);
      return Flow::kNext;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_if(const Statement& statement, Scope& scope) {
  for (const Branch& branch : statement.branches)
    if (is_true(evaluate(*branch.condition, scope))) return run(branch.body, scope);
  return run(statement.otherwise, scope);
}

// Returns the elements of a loop for which its condition holds.
Advance Interpreter::filtered(const Statement& loop, Scope& scope, Advance advance) {
  Scope& inner = make_scope(arena_, loop.condition_symbols, &scope);
  enter(inner);
  return [this, &loop, &inner, advance = std::move(advance)](Value& value) {
    while (advance(value)) {
      assign(*loop.target, value, inner);
      if (is_true(evaluate(*loop.condition, inner))) return true;
    }
    return false;
  };
}

Interpreter::Flow Interpreter::run_for(const Statement& statement, Scope& scope) {
  auto& loop = *arena_.make<Loop>(256);
  loop.iterable = evaluate(*statement.value, scope);
  line_ = statement.line;
  loop.advance = iterate(arena_, loop.iterable);
  if (statement.condition) {
    loop.advance = filtered(statement, scope, std::move(loop.advance));
    loop.iterable = Value::none();  // its length is not that of the loop
  }
  Scope& inner = make_scope(arena_, statement.body_symbols, &scope);
  bool has_run =
      false;  // an iteration came to its end; as in Jinja2, one that was left by continue does not count
  while (advance_loop(loop)) {
    line_ = statement.line;
    const Flow flow = run_loop_body(statement, loop, inner);
    if (flow == Flow::kBreak) break;
    has_run |= flow == Flow::kNext;
    line_ = statement.line;
  }
  leave(inner);
  if (has_run || statement.otherwise.empty()) return Flow::kNext;
  Scope& otherwise = make_scope(arena_, statement.otherwise_symbols, &scope);
  enter(otherwise);
  const Flow flow = run(statement.otherwise, otherwise);
  leave(otherwise);
  return flow;
}

Interpreter::Flow Interpreter::run_loop_body(const Statement& statement, Loop& loop, Scope& inner) {
  enter(inner);
  inner.values["loop"] = &loop;
  assign(*statement.target, loop.current, inner);
  return run(statement.body, inner);
}

void Interpreter::run_set(const Statement& statement, Scope& scope) {
  const Value value = evaluate(*statement.value, scope);
  line_ = statement.line;
  assign(*statement.target, value, scope);
}

Interpreter::Flow Interpreter::run_set_block(const Statement& statement, Scope& scope) {
  Scope& inner = make_scope(arena_, statement.body_symbols, &scope);
  enter(inner);
  std::string around = std::exchange(output_, {});
  const Flow flow = run(statement.body, inner);
  Value text = arena_.text(std::exchange(output_, std::move(around)));
  if (flow != Flow::kNext) return flow;
  line_ = statement.line;
  if (statement.filter) text = filter(*statement.filter, inner, &text);
  assign(*statement.target, text, scope);
  leave(inner);
  return flow;
}

Interpreter::Flow Interpreter::run_filter_block(const Statement& statement, Scope& scope) {
  Scope& inner = make_scope(arena_, statement.body_symbols, &scope);
  enter(inner);
  std::string around = std::exchange(output_, {});
  const Flow flow = run(statement.body, inner);
  const Value text = arena_.text(std::exchange(output_, std::move(around)));
  if (flow == Flow::kNext) print_block(filter(*statement.filter, inner, &text));
  leave(inner);
  return flow;
}

Interpreter::Flow Interpreter::run_with(const Statement& statement, Scope& scope) {
  Scope& inner = make_scope(arena_, statement.body_symbols, &scope);
  enter(inner);
  for (size_t i = 0; i < statement.targets.size(); ++i)
    assign(*statement.targets[i], evaluate(*statement.values[i], scope), inner);
  const Flow flow = run(statement.body, inner);
  leave(inner);
  return flow;
}

void Interpreter::run_call(const Statement& statement, Scope& scope) {
  const Value caller(arena_.make<Macro>(0, statement, &scope));
  print_block(call_expression(*statement.value, scope, &caller));
}

void Interpreter::run_generation(const Statement& statement, Scope& scope) {
  Scope& inner = make_scope(arena_, statement.body_symbols, &scope);
  enter(inner);
  (void)run(statement.body, inner);
}

}  // namespace mkrt::jinja
