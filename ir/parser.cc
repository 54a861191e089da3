#include "ir/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "ir/text.h"

namespace mkc {
namespace {

std::string suggestion(const std::string& near) {
  return near.empty() ? "" : fmt::format(", did you mean '{}'?", near);
}

}  // namespace

Parser::Parser(std::vector<Token> tokens, std::string_view text, const std::string& file, Places* places)
    : tokens_(std::move(tokens)), text_(text), file_(file), places_(places) {
  declare_names();
}

void Parser::declare_names() {
  for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
    if (i > 0 && tokens_[i - 1].kind != TokenKind::kNewline) continue;
    const Token &first = tokens_[i], &second = tokens_[i + 1];
    if (first.is("symbol") || first.is("list")) symbols.add(second.text);
    if (first.is("event")) events.add(second.text);
    if (first.is("grid")) grids.add(second.text);
    for (TensorKind kind : kTensorKinds)
      if (first.is(keyword(kind))) tensors.add(second.text);
  }
}

Token Parser::take() {
  Token token = peek();
  if (!at_end()) ++next_;
  return token;
}

bool Parser::accept(std::string_view word) {
  if (!peek().is(word)) return false;
  ++next_;
  return true;
}

void Parser::expect(std::string_view word) {
  if (!accept(word)) fail_expected(fmt::format("'{}'", word));
}

void Parser::fail(const Token& where, const std::string& message) {
  if (!error) error = error_at({file_, where.line, where.col}, message, text_);
  next_ = tokens_.size() - 1;
}

void Parser::fail_expected(const std::string& what) {
  fail(peek(), fmt::format("expected {}, found {}", what, describe(peek())));
}

void Parser::mark(Subject subject) {
  if (places_ && !at_end()) places_->at.emplace(subject, Loc{file_, peek().line, peek().col});
}

void Parser::end_line() {
  if (peek().kind == TokenKind::kNewline)
    ++next_;
  else if (!at_end())
    fail_expected("end of line");
}

std::string Parser::name(const char* what) {
  if (peek().kind == TokenKind::kWord || peek().kind == TokenKind::kString) return take().text;
  fail_expected(what);
  return {};
}

std::string Parser::quoted(const char* what) {
  if (peek().kind == TokenKind::kString) return take().text;
  fail_expected(std::string(what) + " in double quotes");
  return {};
}

size_t Parser::choice(const char* what, const std::vector<std::string>& known) {
  const Token token = peek();
  const auto found = std::find(known.begin(), known.end(), name(what));
  if (found != known.end()) return static_cast<size_t>(found - known.begin());
  const std::string near = nearest_name(token.text, known);
  fail(token, near.empty()
                  ? fmt::format("expected {} ({}), found {}", what, fmt::join(known, ", "), describe(token))
                  : fmt::format("expected {}, found {}{}", what, describe(token), suggestion(near)));
  return 0;
}

uint64_t Parser::natural(uint64_t max) {
  if (peek().kind != TokenKind::kInt) {
    fail_expected("a whole number");
    return 0;
  }
  return value_of(take(), max);
}

uint64_t Parser::value_of(const Token& token, uint64_t max) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (code == std::errc() && value <= max) return value;
  fail(token, fmt::format("number {} is too large, at most {}", token.text, max));
  return 0;
}

int64_t Parser::integer(int64_t min, int64_t max) {
  if (!accept("-")) return static_cast<int64_t>(natural(static_cast<uint64_t>(max)));
  const uint64_t magnitude = natural(-static_cast<uint64_t>(min));
  return static_cast<int64_t>(-magnitude);
}

double Parser::real() {
  const double sign = accept("-") ? -1.0 : 1.0;
  if (accept("inf")) return sign * std::numeric_limits<double>::infinity();
  if (accept("nan")) return std::numeric_limits<double>::quiet_NaN();
  if (peek().kind != TokenKind::kFloat) {
    fail_expected("a number with a fraction or an exponent");
    return 0;
  }
  const Token token = take();
  double value = 0;
  const auto [end, code] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (code != std::errc()) fail(token, fmt::format("number {} is out of range", token.text));
  return sign * value;
}

uint32_t Parser::find(const Token& at, const NameTable& table) {
  const auto found = table.index.find(at.text);
  if (found != table.index.end()) return found->second;
  const std::string near = nearest_name(at.text, table.names);
  fail(at, fmt::format("unknown {} {}{}", table.what, describe(at),
                       suggestion(near.empty() ? near : table.sigil + near)));
  return Id<void>::kNone;
}

uint32_t Parser::reference(TokenKind kind, const NameTable& table) {
  if (peek().kind != kind) {
    fail_expected(fmt::format("{}{} ({}name)", table.what[0] == 'e' ? "an " : "a ", table.what, table.sigil));
    return Id<void>::kNone;
  }
  const Token token = take();
  return token.is_number ? static_cast<uint32_t>(value_of(token, UINT32_MAX)) : find(token, table);
}

std::vector<TensorId> Parser::tensor_list(std::string_view close) {
  std::vector<TensorId> out;
  if (accept(close)) return out;
  do out.push_back(tensor());
  while (accept(","));
  expect(close);
  return out;
}

Attr Parser::attr() {
  Attr a;
  a.name = name("an attribute's name");
  expect("=");
  const Token& value = tokens_[std::min(next_ + (peek().is("-") ? 1 : 0), tokens_.size() - 1)];
  a.is_float = value.kind == TokenKind::kFloat || value.is("inf") || value.is("nan");
  if (a.is_float)
    a.f = real();
  else
    a.i = integer(INT64_MIN, INT64_MAX);
  return a;
}

Attrs Parser::attrs() {
  Attrs out;
  if (!accept("{")) return out;
  do out.push_back(attr());
  while (accept(","));
  expect("}");
  return out;
}

int32_t Parser::layer() {
  return accept("layer") ? static_cast<int32_t>(integer(INT32_MIN, INT32_MAX)) : -1;
}

Loc Parser::loc() {
  Loc out;
  if (!accept("loc")) return out;
  expect("(");
  const Token label = peek();
  const auto file = files_.find(name("a file's label"));
  if (!error && file == files_.end())
    fail(label, fmt::format("no file line has the label {}", describe(label)));
  if (file != files_.end()) out.file = file->second;
  expect(":");
  out.line = natural32();
  expect(":");
  out.col = natural32();
  expect(")");
  return out;
}

bool Parser::file_line() {
  if (!accept("file")) return false;
  const Token label = peek();
  const std::string text = name("a file's label");
  if (!files_.emplace(text, quoted("a path")).second)
    fail(label, fmt::format("another file has the label {}", describe(label)));
  end_line();
  return true;
}

bool Parser::symbol_line(Table<SymbolId, Symbol>& table) {
  const bool is_list = peek().is("list");
  if (!is_list && !peek().is("symbol")) return false;
  mark({Part::kSymbol, table.size()});
  take();
  Symbol s;
  s.name = name("a symbol's name");
  if (is_list) {
    expect("[");
    const Token at = peek();
    s.length = expr();
    if (!s.is_list()) fail(at, "expected a length of 1 or more");
    expect("]");
  }
  expect("in");
  expect("[");
  s.bounds.lo = integer(INT64_MIN, INT64_MAX);
  expect(",");
  s.bounds.hi = integer(INT64_MIN, INT64_MAX);
  expect("]");
  if (is_list && accept("sums")) {
    const Token at = take();
    s.sums = at.is("#") ? SymbolId{natural32()} : SymbolId{find(at, symbols)};
  }
  s.routed = accept("routed");
  s.cut = accept("cut");
  s.loc = loc();
  end_line();
  table.add(std::move(s));
  return true;
}

bool Parser::rope_line(std::vector<RopeTable>& ropes) {
  if (!peek().is("rope")) return false;
  mark({Part::kRope, static_cast<uint32_t>(ropes.size())});
  take();
  RopeTable rope;
  rope.tensor = tensor();
  expect("scale");
  rope.scale = real();
  expect("inv_freq");
  expect("[");
  if (!accept("]")) {
    do rope.inv_freq.push_back(real());
    while (accept(","));
    expect("]");
  }
  end_line();
  ropes.push_back(std::move(rope));
  return true;
}

bool Parser::tensor_line(Table<TensorId, Tensor>& table, std::vector<Slot>* slots) {
  Tensor t;
  const auto kind = std::find_if(kTensorKinds.begin(), kTensorKinds.end(),
                                 [&](TensorKind k) { return peek().is(keyword(k)); });
  if (kind == kTensorKinds.end()) return false;
  mark({Part::kTensor, table.size()});
  take();
  t.kind = *kind;
  t.name = declared(TokenKind::kTensor, "a tensor (%name)");
  expect(":");
  t.dtype = kDTypes[choice("a dtype", names_of(kDTypes))];
  t.shape = expr_list();
  if (accept("from")) t.source = quoted("the checkpoint's name");
  if (accept("packed")) {
    expect("(");
    t.packing.sources = tensor_list(")");
  }
  if (accept("group")) t.packing.group = integer(INT64_MIN, INT64_MAX);
  if (slots) slots->push_back(slot());
  t.loc = loc();
  end_line();
  table.add(std::move(t));
  return true;
}

Slot Parser::slot() {
  Slot s;
  if (!accept("slot")) return s;
  s.offset = natural(UINT64_MAX);
  expect(":+");
  s.bytes = natural(UINT64_MAX);
  return s;
}

std::string Parser::declared(TokenKind kind, const char* what) {
  if (peek().kind == kind && !peek().is_number) return take().text;
  fail_expected(what);
  return {};
}

void Parser::unknown_line(std::vector<std::string> keywords) {
  for (TensorKind kind : kTensorKinds) keywords.emplace_back(keyword(kind));
  for (const char* keyword : {"file", "symbol", "list", "rope"}) keywords.emplace_back(keyword);
  const Token& at = peek();
  const std::string near = at.kind == TokenKind::kWord ? nearest_name(at.text, keywords) : "";
  fail(at, fmt::format("no line begins with {} here{}", describe(at), suggestion(near)));
}

}  // namespace mkc
