#include "runtime/text/jinja/symbols.h"

#include <vector>

#include "runtime/text/jinja/ast.h"

namespace mkrt::jinja {
namespace {

// Finder enters the names that statements and expressions use into the symbols of one scope.
class Finder {
 public:
  explicit Finder(Symbols& symbols) : symbols_(&symbols) {}

  void read(const Expression* expression) {
    if (expression == nullptr) return;
    if (expression->kind == Expression::Kind::kName || expression->kind == Expression::Kind::kNamespaceTarget)
      if (!symbols_->is_known(expression->text)) symbols_->names.emplace(expression->text, Initial::kContext);
    for (const ExpressionPtr& item : expression->items) read(item.get());
    for (const Keyword& keyword : expression->keywords) read(keyword.value.get());
    read(expression->star.get());
    read(expression->star_star.get());
  }

  void assign(const Expression& target) {
    if (target.kind == Expression::Kind::kNamespaceTarget) read(&target);
    if (target.kind == Expression::Kind::kName) assign_name(target.text);
    for (const ExpressionPtr& item : target.items) assign(*item);
  }

  void declare(const std::string& name) {
    symbols_->assigned.insert(name);
    symbols_->names.insert_or_assign(name, Initial::kParameter);
  }
  void declare_all(const Expression& target) {
    if (target.kind == Expression::Kind::kName) declare(target.text);
    for (const ExpressionPtr& item : target.items) declare_all(*item);
  }

  void visit(const Block& block) {
    for (const auto& statement : block) visit(*statement);
  }

  // Enters what the statement uses in the scope around it. Bodies with scopes of their own are left out.
  void visit(const Statement& statement) {
    switch (statement.kind) {
      case StatementKind::kText:
      case StatementKind::kBreak:
      case StatementKind::kContinue:
      case StatementKind::kGeneration:
        return;
      case StatementKind::kIf:
        return visit_if(statement, 0);
      case StatementKind::kMacro:
        return assign_name(statement.text);
      case StatementKind::kFilter:
        return read(statement.filter.get());
      case StatementKind::kSetBlock:
        return assign(*statement.target);
      case StatementKind::kFor:
      case StatementKind::kCall:
        return read(statement.value.get());
      case StatementKind::kSet:
        read(statement.value.get());
        return assign(*statement.target);
      case StatementKind::kPrint:
      case StatementKind::kWith:
        for (const ExpressionPtr& value : statement.values) read(value.get());
        return;
    }
  }

 private:
  void assign_name(const std::string& name) {
    symbols_->assigned.insert(name);
    if (symbols_->holds(name)) return;
    const bool is_outer = symbols_->parent != nullptr && symbols_->parent->is_known(name);
    symbols_->names.emplace(name, is_outer ? Initial::kOuter : Initial::kMissing);
  }

  // Visits the branch of the index. The branches behind it count as its `else`.
  void visit_if(const Statement& statement, size_t index) {
    read(statement.branches[index].condition.get());
    Symbols& before = *symbols_;
    Symbols taken = before, next = before, otherwise = before;
    symbols_ = &taken;
    visit(statement.branches[index].body);
    symbols_ = &next;
    for (size_t i = index + 1; index == 0 && i < statement.branches.size(); ++i) visit_if(statement, i);
    symbols_ = &otherwise;
    if (index == 0) visit(statement.otherwise);
    symbols_ = &before;
    merge({&taken, &next, &otherwise});
  }

  // A name that only branches assign has its outer value where no such branch is taken.
  void merge(const std::vector<const Symbols*>& branches) {
    std::set<std::string, std::less<>> assigned;
    for (const Symbols* branch : branches)
      for (const std::string& name : branch->assigned)
        if (!symbols_->assigned.contains(name)) assigned.insert(name);
    for (const Symbols* branch : branches) {
      for (const auto& [name, initial] : branch->names) symbols_->names.insert_or_assign(name, initial);
      symbols_->assigned.insert(branch->assigned.begin(), branch->assigned.end());
    }
    for (const std::string& name : assigned) {
      const bool is_outer = symbols_->parent != nullptr && symbols_->parent->is_known(name);
      symbols_->names.insert_or_assign(name, is_outer ? Initial::kOuter : Initial::kContext);
    }
  }

  Symbols* symbols_;
};

// SpecialNames finds which of the special names a macro's body reads before it declares them.
class SpecialNames {
 public:
  explicit SpecialNames(Statement& macro) {
    visit(macro.body);
    macro.reads_caller = found_.contains("caller");
    macro.reads_keywords = found_.contains("kwargs");
    macro.reads_rest = found_.contains("varargs");
    for (const ExpressionPtr& parameter : macro.targets) {
      if (parameter->text == "kwargs") macro.reads_keywords = false;
      if (parameter->text == "varargs") macro.reads_rest = false;
    }
  }

 private:
  void read(const Expression* expression) {
    if (expression == nullptr) return;
    if (expression->kind == Expression::Kind::kName && open_.contains(expression->text))
      found_.insert(expression->text);
    for (const ExpressionPtr& item : expression->items) read(item.get());
    for (const Keyword& keyword : expression->keywords) read(keyword.value.get());
    read(expression->star.get());
    read(expression->star_star.get());
  }
  void declare(const Expression* target) {
    if (target == nullptr) return;
    if (target->kind == Expression::Kind::kName) open_.erase(target->text);
    for (const ExpressionPtr& item : target->items) declare(item.get());
  }
  void visit(const Block& block) {
    for (const auto& statement : block) visit(*statement);
  }
  // Visits the parts of a statement in the order in which Jinja2 lists them.
  void visit(const Statement& statement) {
    if (statement.kind == StatementKind::kCall) read(statement.value.get());
    if (statement.kind != StatementKind::kMacro) declare(statement.target.get());
    for (const ExpressionPtr& target : statement.targets) declare(target.get());
    for (const ExpressionPtr& value : statement.values) read(value.get());
    if (statement.kind != StatementKind::kCall) read(statement.value.get());
    if (statement.kind == StatementKind::kSetBlock) read(statement.filter.get());
    for (const Branch& branch : statement.branches) {
      read(branch.condition.get());
      visit(branch.body);
    }
    visit(statement.body);
    visit(statement.otherwise);
    if (statement.kind == StatementKind::kFilter) read(statement.filter.get());
    read(statement.condition.get());
  }

  std::set<std::string> open_ = {"caller", "kwargs", "varargs"};
  std::set<std::string> found_;
};

void find_in_block(Block& block, const Symbols& scope);

void find_in_loop(Statement& loop, const Symbols& scope) {
  loop.body_symbols.parent = loop.condition_symbols.parent = loop.otherwise_symbols.parent = &scope;
  Finder body(loop.body_symbols);
  body.declare("loop");
  body.declare_all(*loop.target);
  body.visit(loop.body);
  Finder condition(loop.condition_symbols);
  condition.declare_all(*loop.target);
  condition.read(loop.condition.get());
  Finder(loop.otherwise_symbols).visit(loop.otherwise);
  find_in_block(loop.body, loop.body_symbols);
  find_in_block(loop.otherwise, loop.otherwise_symbols);
}

void find_in_function(Statement& function, const Symbols& scope) {
  function.body_symbols.parent = &scope;
  const SpecialNames special(function);
  Finder body(function.body_symbols);
  for (const ExpressionPtr& parameter : function.targets) body.declare(parameter->text);
  for (const ExpressionPtr& value : function.values) body.read(value.get());
  if (function.reads_caller) body.declare("caller");
  if (function.reads_keywords) body.declare("kwargs");
  if (function.reads_rest) body.declare("varargs");
  body.visit(function.body);
  find_in_block(function.body, function.body_symbols);
}

void find_in_scope(Statement& statement, const Symbols& scope) {
  statement.body_symbols.parent = &scope;
  Finder body(statement.body_symbols);
  if (statement.kind == StatementKind::kWith)
    for (const ExpressionPtr& target : statement.targets) body.declare_all(*target);
  body.visit(statement.body);
  if (statement.kind == StatementKind::kFilter || statement.kind == StatementKind::kSetBlock)
    body.read(statement.filter.get());
  find_in_block(statement.body, statement.body_symbols);
}

void find_in_statement(Statement& statement, const Symbols& scope) {
  switch (statement.kind) {
    case StatementKind::kText:
    case StatementKind::kPrint:
    case StatementKind::kSet:
    case StatementKind::kBreak:
    case StatementKind::kContinue:
      return;
    case StatementKind::kFor:
      return find_in_loop(statement, scope);
    case StatementKind::kMacro:
    case StatementKind::kCall:
      return find_in_function(statement, scope);
    case StatementKind::kSetBlock:
    case StatementKind::kFilter:
    case StatementKind::kWith:
    case StatementKind::kGeneration:
      return find_in_scope(statement, scope);
    case StatementKind::kIf:
      for (Branch& branch : statement.branches) find_in_block(branch.body, scope);
      return find_in_block(statement.otherwise, scope);
  }
}

void find_in_block(Block& block, const Symbols& scope) {
  for (const auto& statement : block) find_in_statement(*statement, scope);
}

}  // namespace

bool Symbols::is_known(const std::string& name) const {
  for (const Symbols* scope = this; scope != nullptr; scope = scope->parent)
    if (scope->holds(name)) return true;
  return false;
}

void find_symbols(Template& tree) {
  Finder(tree.symbols).visit(tree.body);
  find_in_block(tree.body, tree.symbols);
}

}  // namespace mkrt::jinja
