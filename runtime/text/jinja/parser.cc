#include "runtime/text/jinja/parser.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "runtime/text/jinja/check.h"
#include "runtime/text/jinja/expression_parser.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/lexer.h"
#include "runtime/text/jinja/limits.h"
#include "runtime/text/jinja/symbols.h"
#include "runtime/text/jinja/syntax.h"

namespace mkrt::jinja {
namespace {

using StatementPtr = std::unique_ptr<Statement>;
class StatementParser {
 public:
  explicit StatementParser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_) {}

  Block run() { return block({}, "", 1); }

 private:
  // Reads statements up to a tag of one of the names, and leaves the parser at the name. No names: up to the
  // end.
  Block block(std::initializer_list<std::string_view> ends, std::string_view tag, uint32_t begin) {
    Block body;
    while (!tokens_.at(TokenKind::kEnd)) {
      if (tokens_.at(TokenKind::kText)) {
        body.push_back(make(StatementKind::kText, tokens_.line()));
        body.back()->text = tokens_.take().text;
      } else if (tokens_.at(TokenKind::kPrintBegin)) {
        body.push_back(print_tag());
      } else {
        tokens_.expect(TokenKind::kBlockBegin);
        if (tokens_.at_name(ends)) return body;
        if (StatementPtr parsed = statement()) body.push_back(std::move(parsed));
        tokens_.expect(TokenKind::kBlockEnd);
      }
    }
    if (ends.size() > 0) fail_at(begin, "the block {} has no end: expected {}", tag, *(ends.end() - 1));
    return body;
  }

  // Reads the rest of a tag, and statements up to the tag that ends them.
  Block body(std::initializer_list<std::string_view> ends, std::string_view tag) {
    const uint32_t line = tokens_.line();
    tokens_.skip_operator(":");
    tokens_.expect(TokenKind::kBlockEnd);
    return block(ends, tag, line);
  }
  Block body_to(std::string_view end, std::string_view tag) {
    Block statements = body({end}, tag);
    tokens_.take();
    return statements;
  }

  static StatementPtr make(StatementKind kind, uint32_t line) {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->line = line;
    return statement;
  }

  StatementPtr print_tag() {
    StatementPtr print = make(StatementKind::kPrint, tokens_.take().line);
    print->values.push_back(expressions_.tuple());
    tokens_.expect(TokenKind::kPrintEnd);
    return print;
  }

  StatementPtr statement() {
    const SyntaxLevel level(depth_, tokens_.line());
    const Token& tag = tokens_.current();
    if (tag.kind != TokenKind::kName)
      fail_at(tag.line, "found {}, expected the name of a tag", tag.describe());
    if (tag.text == "if") return if_tag();
    if (tag.text == "for") return for_tag();
    if (tag.text == "set") return set_tag();
    if (tag.text == "macro") return macro_tag();
    if (tag.text == "call") return call_tag();
    if (tag.text == "filter") return filter_tag();
    if (tag.text == "with") return with_tag();
    if (tag.text == "print") return print_statement();
    if (tag.text == "generation") return generation_tag();
    if (tag.text == "break" || tag.text == "continue") return loop_control();
    for (const std::string_view name : {"autoescape", "block", "extends", "from", "import", "include"})
      if (tag.text == name) fail_at(tag.line, "unsupported: the tag {}", name);
    fail_at(tag.line, "found the tag {}, which does not exist or does not belong here", tag.text);
  }

  StatementPtr if_tag() {
    StatementPtr result = make(StatementKind::kIf, tokens_.line());
    while (tokens_.at_name({"if", "elif"})) {
      tokens_.take();
      ExpressionPtr condition = expressions_.tuple(false);
      Block statements = body({"elif", "else", "endif"}, "if");
      result->branches.push_back({std::move(condition), std::move(statements)});
    }
    if (tokens_.take().text == "else") result->otherwise = body_to("endif", "if");
    return result;
  }

  StatementPtr for_tag() {
    StatementPtr loop = make(StatementKind::kFor, tokens_.take().line);
    const size_t loop_targets = loop_targets_.size();
    loop->target = target(false, "in");
    if (!tokens_.skip_name("in"))
      fail_at(tokens_.line(), "found {}, expected in", tokens_.current().describe());
    loop->value = expressions_.without_conditional();
    if (tokens_.skip_name("if")) loop->condition = expressions_.expression();
    if (tokens_.at_name("recursive")) fail_at(tokens_.line(), "unsupported: recursive loops");
    ++loops_;
    loop->body = body({"else", "endfor"}, "for");
    --loops_;
    if (tokens_.take().text == "else") loop->otherwise = body_to("endfor", "for");
    if (loop_targets_.size() > loop_targets)
      fail_at(loop_targets_.back(), "cannot assign to loop inside of a loop");
    return loop;
  }

  StatementPtr loop_control() {
    const Token& tag = tokens_.take();
    if (loops_ == 0) fail_at(tag.line, "found {} outside of a loop", tag.text);
    return make(tag.text == "break" ? StatementKind::kBreak : StatementKind::kContinue, tag.line);
  }

  ExpressionPtr target(bool namespaces, std::string_view end_name) {
    ExpressionPtr target = expressions_.target(namespaces, end_name);
    note_loop_targets(*target);
    return target;
  }

  void note_loop_targets(const Expression& target) {
    if (target.kind == Expression::Kind::kName && target.text == "loop") loop_targets_.push_back(target.line);
    for (const ExpressionPtr& item : target.items) note_loop_targets(*item);
  }

  StatementPtr set_tag() {
    StatementPtr set = make(StatementKind::kSet, tokens_.take().line);
    set->target = target(true, "");
    if (tokens_.skip_operator("=")) {
      set->value = expressions_.tuple();
      return set;
    }
    set->kind = StatementKind::kSetBlock;
    set->filter = expressions_.filters(nullptr, false);
    set->body = body_to("endset", "set");
    return set;
  }

  void signature(Statement& macro) {
    tokens_.expect_operator("(");
    while (!tokens_.at_operator(")")) {
      if (!macro.targets.empty()) tokens_.expect_operator(",");
      macro.targets.push_back(expressions_.name_target());
      const Expression& parameter = *macro.targets.back();
      if (tokens_.skip_operator("="))
        macro.values.push_back(expressions_.expression());
      else if (!macro.values.empty())
        fail_at(parameter.line, "the parameter {} needs a default, as one before it has one", parameter.text);
      const auto equal = [&](const ExpressionPtr& other) { return other->text == parameter.text; };
      if (std::count_if(macro.targets.begin(), macro.targets.end(), equal) > 1)
        fail_at(parameter.line, "the parameter {} is given twice", parameter.text);
    }
    tokens_.take();
  }

  // Reads a body that is a function of its own, so that no loop around it can be left.
  void function_body(Statement& statement, std::string_view end, std::string_view tag) {
    const uint32_t loops = std::exchange(loops_, 0);
    statement.body = body_to(end, tag);
    loops_ = loops;
  }

  StatementPtr macro_tag() {
    StatementPtr macro = make(StatementKind::kMacro, tokens_.take().line);
    macro->target = expressions_.name_target();
    macro->text = macro->target->text;
    note_loop_targets(*macro->target);
    signature(*macro);
    function_body(*macro, "endmacro", "macro");
    return macro;
  }

  StatementPtr call_tag() {
    StatementPtr call = make(StatementKind::kCall, tokens_.take().line);
    if (tokens_.at_operator("(")) signature(*call);
    call->value = expressions_.expression();
    if (call->value->kind != Expression::Kind::kCall) fail_at(call->line, "the tag call needs a call");
    function_body(*call, "endcall", "call");
    return call;
  }

  StatementPtr filter_tag() {
    StatementPtr filter = make(StatementKind::kFilter, tokens_.take().line);
    filter->filter = expressions_.filters(nullptr, true);
    filter->body = body_to("endfilter", "filter");
    return filter;
  }

  StatementPtr with_tag() {
    StatementPtr with = make(StatementKind::kWith, tokens_.take().line);
    while (!tokens_.at(TokenKind::kBlockEnd)) {
      if (!with->targets.empty()) tokens_.expect_operator(",");
      with->targets.push_back(expressions_.target(false));
      tokens_.expect_operator("=");
      with->values.push_back(expressions_.expression());
    }
    with->body = body_to("endwith", "with");
    return with;
  }

  StatementPtr print_statement() {
    StatementPtr print = make(StatementKind::kPrint, tokens_.take().line);
    while (!tokens_.at(TokenKind::kBlockEnd)) {
      if (!print->values.empty()) tokens_.expect_operator(",");
      print->values.push_back(expressions_.expression());
    }
    return print;
  }

  StatementPtr generation_tag() {
    StatementPtr generation = make(StatementKind::kGeneration, tokens_.take().line);
    function_body(*generation, "endgeneration", "generation");
    return generation;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  uint32_t depth_ = 0;
  uint32_t loops_ = 0;                  // loops around the current statement, inside of its function
  std::vector<uint32_t> loop_targets_;  // lines of assignments to `loop`
};

}  // namespace

std::unique_ptr<Template> parse_template(std::string_view source) {
  if (source.size() > kMaxSourceBytes)
    fail_at(1, "a template of {} bytes is too long: at most {}", source.size(), kMaxSourceBytes);
  auto tree = std::make_unique<Template>();
  tree->body = StatementParser(source).run();
  find_symbols(*tree);
  check_names(*tree);
  return tree;
}

}  // namespace mkrt::jinja
