// All levels are parsed by this parser. This header is internal to parse.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>

#include "ir/lexer.h"
#include "ir/parse.h"
#include "ir/text.h"

namespace mkc {

// NameTable holds the objects of one kind by name. The table is complete before the first line is parsed.
struct NameTable {
  const char* what;   // "tensor", …
  const char* sigil;  // "%", "@" or ""
  std::vector<std::string> names{};
  std::unordered_map<std::string, uint32_t> index{};  // index of the first object of a name

  void add(const std::string& name) {
    index.emplace(name, static_cast<uint32_t>(names.size()));
    names.push_back(name);
  }
};

// A parser stands at the end of the text after its first error. The parser answers every request with a
// default from then on. Callers therefore need not look for errors until they are done.
struct Parser {
  Parser(std::vector<Token> tokens, std::string_view text, const std::string& file, Places* places);

  std::optional<Error> error;
  NameTable symbols{"symbol", ""}, tensors{"tensor", "%"}, grids{"grid", "%"}, events{"event", "@"};
  std::vector<std::string> coords;  // coordinates of the grid being read

  const Token& peek() const { return tokens_[next_]; }
  bool at_end() const { return peek().kind == TokenKind::kEnd; }
  // Returns the next token and moves past it, except at the end of the text.
  Token take();
  // Moves past the next token if it is `word`, and tells whether it was.
  bool accept(std::string_view word);
  // Moves past `word`. Errors: another token.
  void expect(std::string_view word);
  // Records the error if it is the first, at `where`, and moves to the end of the text.
  void fail(const Token& where, const std::string& message);
  void fail_expected(const std::string& what);  // "expected WHAT, found …" at the next token
  // Records that the line which begins here describes `subject`.
  void mark(Subject subject);
  // Moves past the end of the line. Errors: another token.
  void end_line();

  std::string name(const char* what);  // plain or quoted
  std::string quoted(const char* what);
  size_t choice(const char* what, const std::vector<std::string>& known);  // position of the word
  uint64_t natural(uint64_t max);                                          // at most `max`
  uint32_t natural32() { return static_cast<uint32_t>(natural(UINT32_MAX)); }
  int64_t integer(int64_t min, int64_t max);  // with an optional sign
  // Returns a floating-point number with an optional sign, inf or nan.
  double real();
  TensorId tensor() { return {reference(TokenKind::kTensor, tensors)}; }
  GridId grid() { return {reference(TokenKind::kTensor, grids)}; }
  EventId event() { return {reference(TokenKind::kEvent, events)}; }
  std::vector<TensorId> tensor_list(std::string_view close);  // up to and with `close`; may be empty
  std::string declared(TokenKind kind, const char* what);     // the name after a sigil, not a number

  Expr expr();
  std::vector<Expr> expr_list();  // "[a, b]"
  Region region();                // "[offset:+size, …]"

  Attrs attrs();    // "{…}" if it stands here
  int32_t layer();  // "layer n" if it stands here
  Loc loc();        // "loc(…)" if it stands here

  // Parse lines that all levels have. Return false where another line begins here.
  bool file_line();
  bool symbol_line(Table<SymbolId, Symbol>& table);
  bool rope_line(std::vector<RopeTable>& ropes);
  // `slots` belong to a schedule's tensors and grow with `table`. `slots` is null at other levels.
  bool tensor_line(Table<TensorId, Tensor>& table, std::vector<Slot>* slots);
  // Refuses a line that no other function takes. `keywords` begin the lines of the level.
  void unknown_line(std::vector<std::string> keywords);

 private:
  uint64_t value_of(const Token& digits, uint64_t max);
  // Returns the index of the object that the next token names or numbers.
  uint32_t reference(TokenKind kind, const NameTable& table);
  // Returns the index of the object of a name. Errors: unknown names, with the nearest known one.
  uint32_t find(const Token& at, const NameTable& table);
  // Fills the name tables from the first words of all lines, before any line is parsed.
  void declare_names();
  void operand(Expr& out, int depth);
  void operators(Expr& out, int depth, int least_precedence);
  void function(Expr& out, int depth, ExprKind kind);
  void symbol_operand(Expr& out, int depth, uint32_t symbol);
  Attr attr();
  Slot slot();

  std::vector<Token> tokens_;
  size_t next_ = 0;
  std::string_view text_;
  std::string file_;
  Places* places_;
  std::map<std::string, std::string> files_;  // by label
};

// Parse the lines after the header. Errors are left in the parser.
OpGraph parse_ops(Parser& p, const std::string& name);
TaskProgram parse_tasks(Parser& p, const std::string& name);
Schedule parse_schedule(Parser& p, const std::string& name);

// Parses the lines of a task program. Returns false where another line begins here. `schedule` is the
// schedule that the program is part of, or null.
bool program_lines(Parser& p, TaskProgram& program, Schedule* schedule);

// Returns the names of the values of an enum, in order.
template <class Kinds>
std::vector<std::string> names_of(const Kinds& kinds) {
  std::vector<std::string> names;
  for (auto kind : kinds) names.push_back(keyword(kind));
  return names;
}

}  // namespace mkc
