// Names of a template have a place for their value, and can be assigned to.
#include "runtime/text/jinja/dict.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/globals.h"
#include "runtime/text/jinja/interpreter.h"
#include "runtime/text/jinja/iterate.h"

namespace mkrt::jinja {
namespace {

// Returns the value of the innermost scope that holds the name, or null.
const Value* find_in_scopes(const Scope* scope, const std::string& name) {
  for (; scope != nullptr; scope = scope->parent)
    if (const auto found = scope->values.find(name); found != scope->values.end()) return &found->second;
  return nullptr;
}

}  // namespace

void Interpreter::enter(Scope& scope) {
  arena_.step(scope.symbols.names.size());
  for (const auto& [name, initial] : scope.symbols.names) {
    Value value;
    if (initial == Initial::kContext) value = variable(name);
    if (initial == Initial::kOuter)
      if (const Value* outer = find_in_scopes(scope.parent, name)) value = *outer;
    scope.values.insert_or_assign(name, value);
  }
}

Value Interpreter::variable(const std::string& name) {
  if (const Value* given = find(arena_, variables_, name)) return *given;
  return find_global(arena_, name);
}

Value Interpreter::lookup(const Expression& name, const Scope& scope) {
  const Value* found = find_in_scopes(&scope, name.text);
  const Value value = found != nullptr ? *found : variable(name.text);
  return value.is(Value::Kind::kMissing) ? arena_.undefined(name.text + " is undefined") : value;
}

void Interpreter::assign(const Expression& target, const Value& value, Scope& scope) {
  if (target.kind == ExpressionKind::kNamespaceTarget) return assign_attribute(target, value, scope);
  if (target.kind == ExpressionKind::kName) {
    scope.values.insert_or_assign(target.text, value);
    return;
  }
  std::vector<Value> items;
  const Advance advance = iterate(arena_, value);
  for (Value item; items.size() <= target.items.size() && advance(item);) items.push_back(item);
  if (items.size() != target.items.size())
    fail_at(target.line, "found {} values to unpack, expected {}",
            items.size() > target.items.size() ? "more" : std::to_string(items.size()), target.items.size());
  for (size_t i = 0; i < items.size(); ++i) assign(*target.items[i], items[i], scope);
}

void Interpreter::assign_attribute(const Expression& target, const Value& value, const Scope& scope) {
  const Value object = lookup(target, scope);
  if (!object.is(Value::Kind::kNamespace))
    fail_at(target.line, "cannot assign {}.{}: found {}, expected a namespace", target.text, target.attribute,
            object.described());
  if (target.attribute.starts_with('_'))
    fail_at(target.line, "a namespace has no attribute that begins with an underscore, found {}",
            target.attribute);
  put(arena_, *object.name_space().attributes, arena_.text(target.attribute), value);
}

}  // namespace mkrt::jinja
