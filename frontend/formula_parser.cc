#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "frontend/formula.h"

namespace mkc {
namespace {

constexpr int kMaxNesting = 64;
constexpr size_t kMaxFormulaNodes = 1024;  // evaluation may nest as deep

struct Operator {
  const char* text;
  FormulaOp op;
  int level;
};

// Longer spellings stand before their prefixes.
constexpr Operator kOperators[] = {
    {"or", FormulaOp::kOr, 0},   {"and", FormulaOp::kAnd, 1}, {"==", FormulaOp::kEq, 2},
    {"!=", FormulaOp::kNe, 2},   {"<=", FormulaOp::kLe, 2},   {">=", FormulaOp::kGe, 2},
    {"<", FormulaOp::kLt, 2},    {">", FormulaOp::kGt, 2},    {"in", FormulaOp::kIn, 2},
    {"??", FormulaOp::kElse, 3}, {"+", FormulaOp::kAdd, 4},   {"-", FormulaOp::kSub, 4},
    {"*", FormulaOp::kMul, 5},   {"/", FormulaOp::kDiv, 5},   {"%", FormulaOp::kMod, 5},
};
constexpr int kTightestLevel = 5;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

class Parser {
 public:
  Parser(const Document& document, const Node& node) : document_(document), text_(node.string) {
    formula_.text = node.string;
    formula_.place = node.place;
    if (node.quoted) ++formula_.place.col;
  }

  Result<Formula> parse() {
    MKC_TRY_STATUS(conditional());
    skip_space();
    if (at_ != text_.size()) return fail("expected an operator or the end");
    if (formula_.nodes.size() > kMaxFormulaNodes)
      return document_.error(
          formula_.place, fmt::format("found an expression of {} operators and operands, expected at most {}",
                                      formula_.nodes.size(), kMaxFormulaNodes));
    return std::move(formula_);
  }

 private:
  const Document& document_;
  const std::string& text_;
  size_t at_ = 0;
  int nesting_ = 0;
  Formula formula_;

  Place here() const { return {formula_.place.line, formula_.place.col + static_cast<uint32_t>(at_)}; }
  Error fail(const std::string& message) const {
    return document_.error(here(), fmt::format("{} in \"{}\"", message, text_));
  }
  size_t last() const { return formula_.nodes.size() - 1; }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  bool accept(std::string_view token) {
    skip_space();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    const size_t end = at_ + token.size();
    if (is_word(token.back()) && end < text_.size() && is_word(text_[end])) return false;
    at_ = end;
    return true;
  }

  // Parses one subexpression. Afterwards last() is its root.
  Status nested(auto parse_inner) {
    if (++nesting_ > kMaxNesting) return fail(fmt::format("nested deeper than {} levels", kMaxNesting));
    MKC_TRY_STATUS(parse_inner());
    --nesting_;
    return {};
  }

  const Operator* accept_operator(int level) {
    for (const Operator& candidate : kOperators) {
      if (candidate.level == level && accept(candidate.text)) return &candidate;
    }
    return nullptr;
  }

  Status conditional() {
    MKC_TRY_STATUS(binary(0));
    const size_t lhs = last();
    const Place place = here();
    if (!accept("if")) return {};
    MKC_TRY_STATUS(binary(0));
    const size_t condition = last();
    if (!accept("else")) return fail("expected else");
    MKC_TRY_STATUS(nested([&] { return conditional(); }));
    formula_.nodes.push_back({FormulaOp::kIf, {}, {}, lhs, last(), place, condition});
    return {};
  }

  Status binary(int level) {
    if (level > kTightestLevel) return unary();
    MKC_TRY_STATUS(binary(level + 1));
    while (true) {
      const size_t lhs = last();
      skip_space();
      const Place place = here();
      const Operator* found = accept_operator(level);
      if (!found) return {};
      MKC_TRY_STATUS(binary(level + 1));
      formula_.nodes.push_back({found->op, {}, {}, lhs, last(), place});
    }
  }

  Status unary() {
    skip_space();
    const Place place = here();
    std::optional<FormulaOp> op;
    if (accept("not"))
      op = FormulaOp::kNot;
    else if (accept("-"))
      op = FormulaOp::kNegate;
    if (!op) return primary();
    // `not` takes a whole comparison, a minus sign one factor.
    MKC_TRY_STATUS(nested([&] { return op == FormulaOp::kNot ? binary(2) : unary(); }));
    formula_.nodes.push_back({*op, {}, {}, last(), last(), place});
    return {};
  }

  Status primary() {
    skip_space();
    if (at_ == text_.size()) return fail("expected a value");
    if (accept("(")) return rest_of_parentheses();
    const Place place = here();
    for (const auto& [name, op] : {std::pair{"sqrt", FormulaOp::kSqrt}, {"size", FormulaOp::kSize}}) {
      if (!accept(name)) continue;
      if (!accept("(")) return fail("expected (");
      MKC_TRY_STATUS(rest_of_parentheses());
      formula_.nodes.push_back({op, {}, {}, last(), last(), place});
      return {};
    }
    if (text_[at_] == '\'') return quoted_string();
    if (std::isdigit(static_cast<unsigned char>(text_[at_]))) return number();
    if (is_word(text_[at_])) return word();
    return fail("expected a value");
  }

  Status rest_of_parentheses() {
    MKC_TRY_STATUS(nested([&] { return conditional(); }));
    return accept(")") ? Status() : fail("expected )");
  }

  void push_literal(Node value, Place place) {
    formula_.nodes.push_back({FormulaOp::kLiteral, std::move(value), {}, 0, 0, place});
  }

  Status quoted_string() {
    const Place place = here();
    const size_t end = text_.find('\'', at_ + 1);
    if (end == std::string::npos) return fail("expected a closing '");
    push_literal(string_node(text_.substr(at_ + 1, end - at_ - 1)), place);
    at_ = end + 1;
    return {};
  }

  Status number() {
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    int64_t integer = 0;
    double real = 0;
    const auto as_integer = std::from_chars(begin, end, integer);
    const auto as_real = std::from_chars(begin, end, real);
    const bool whole = as_integer.ec == std::errc() && as_integer.ptr == as_real.ptr;
    if (as_real.ec != std::errc() || (as_real.ptr != end && is_word(*as_real.ptr))) {
      return fail("expected a number");
    }
    push_literal(whole ? int_node(integer) : float_node(real), here());
    at_ += static_cast<size_t>(as_real.ptr - begin);
    return {};
  }

  Status word() {
    const Place place = here();
    const size_t begin = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '.')) ++at_;
    const std::string name = text_.substr(begin, at_ - begin);
    if (name == "null")
      push_literal(null_node(), place);
    else if (name == "true" || name == "false")
      push_literal(bool_node(name == "true"), place);
    else if (name == "config" || name.starts_with("config.")) {
      formula_.nodes.push_back(
          {FormulaOp::kConfig, {}, name.substr(std::min<size_t>(7, name.size())), 0, 0, place});
    } else {
      formula_.nodes.push_back({FormulaOp::kName, {}, name, 0, 0, place});
    }
    return accept("[") ? rest_of_index(place) : Status();
  }

  Status rest_of_index(Place place) {
    const size_t list = last();
    MKC_TRY_STATUS(nested([&] { return conditional(); }));
    if (!accept("]")) return fail("expected ]");
    formula_.nodes.push_back({FormulaOp::kIndex, {}, {}, list, last(), place});
    return {};
  }
};

}  // namespace

std::string name_fault(std::string_view name) {
  constexpr std::string_view kWords[] = {"if",   "else",  "or",   "and",    "not",  "in",
                                         "true", "false", "null", "config", "sqrt", "size"};
  if (std::ranges::find(kWords, name) != std::end(kWords)) return "is a word of expressions";
  const bool digit_first = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0]));
  if (!name.empty() && !digit_first && std::ranges::all_of(name, is_word)) return "";
  return "is no name of letters, digits and \"_\"";
}

Result<Formula> parse_formula(const Document& document, const Node& node) {
  if (node.is(Node::Kind::kString)) return Parser(document, node).parse();
  if (node.is(Node::Kind::kList) || node.is(Node::Kind::kMap)) {
    return document.error(node.place, fmt::format("found {}, expected an expression", describe(node)));
  }
  return Formula{describe(node), node.place, {{FormulaOp::kLiteral, node, {}, 0, 0, node.place}}};
}

}  // namespace mkc
