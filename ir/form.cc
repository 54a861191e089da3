#include "ir/form.h"

#include <algorithm>

#include "ir/diag.h"

namespace mkc {
namespace {

int64_t floor_of(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// Sorts the terms and adds up the factors of equal products.
Form collect(std::vector<std::pair<Form::Product, int64_t>> terms, bool exact) {
  std::sort(terms.begin(), terms.end());
  Form out;
  out.exact = exact;
  for (auto& [product, factor] : terms) {
    if (!out.terms.empty() && out.terms.back().first == product)
      out.exact &= !__builtin_add_overflow(out.terms.back().second, factor, &out.terms.back().second);
    else
      out.terms.emplace_back(std::move(product), factor);
  }
  std::erase_if(out.terms, [](const auto& term) { return term.second == 0; });
  return out;
}

Form negated(const Form& a) {
  return Forms::sum(Form{}, a, -1);
}

// Tells whether b - a is a constant of at least 0.
bool never_above(const Form& a, const Form& b) {
  const Form difference = Forms::sum(b, a, -1);
  return difference.is_const() && difference.constant() >= 0;
}

}  // namespace

Form Forms::constant(int64_t value) {
  Form out;
  if (value != 0) out.terms.push_back({{}, value});
  return out;
}

Form Forms::sum(const Form& a, const Form& b, int64_t factor_of_b) {
  auto terms = a.terms;
  bool exact = a.exact && b.exact;
  for (const auto& [product, factor] : b.terms) {
    int64_t scaled = 0;
    exact &= !__builtin_mul_overflow(factor, factor_of_b, &scaled);
    terms.emplace_back(product, scaled);
  }
  return collect(std::move(terms), exact);
}

Form Forms::product(const Form& a, const Form& b) {
  std::vector<std::pair<Form::Product, int64_t>> terms;
  bool exact = a.exact && b.exact;
  for (const auto& [x, x_factor] : a.terms)
    for (const auto& [y, y_factor] : b.terms) {
      Form::Product both = x;
      both.insert(both.end(), y.begin(), y.end());
      std::sort(both.begin(), both.end());
      int64_t factor = 0;
      exact &= !__builtin_mul_overflow(x_factor, y_factor, &factor);
      terms.emplace_back(std::move(both), factor);
    }
  return collect(std::move(terms), exact);
}

Form Forms::atom(Atom a) {
  const auto [at, is_new] = numbers_.try_emplace(a, static_cast<uint32_t>(atoms_.size()));
  if (is_new) atoms_.push_back(std::move(a));
  Form out;
  out.terms.push_back({{at->second}, 1});
  return out;
}

Form Forms::coord(uint32_t position) {
  return atom({ExprKind::kCoord, position});
}

Form Forms::floor_div(const Form& a, const Form& b) {
  if (!a.exact || !b.exact || b.is_const(0)) return {.terms = {}, .exact = false};
  if (!b.is_const() || b.constant() < 1) return atom({ExprKind::kFloorDiv, 0, {a, b}});
  const int64_t divisor = b.constant();
  Form whole, rest;  // a = divisor * whole + rest
  for (const auto& [product, factor] : a.terms) {
    const int64_t times = floor_of(factor, divisor);
    if (product.empty() || factor % divisor == 0) {
      if (times != 0) whole.terms.emplace_back(product, times);
      if (factor % divisor != 0) rest.terms.emplace_back(product, factor - times * divisor);
    } else {
      rest.terms.emplace_back(product, factor);
    }
  }
  if (rest.is_const()) return whole;  // a constant rest lies in [0, divisor): its quotient is 0
  return sum(whole, atom({ExprKind::kFloorDiv, 0, {rest, b}}));
}

Form Forms::min(const Form& a, const Form& b) {
  std::vector<Form> operands;
  bool exact = true;
  for (const Form* form : {&a, &b}) {
    exact &= form->exact;
    const bool lone =
        form->terms.size() == 1 && form->terms[0].second == 1 && form->terms[0].first.size() == 1;
    const Atom* inner = lone ? &atoms_[form->terms[0].first[0]] : nullptr;
    if (inner && inner->kind == ExprKind::kMin)
      operands.insert(operands.end(), inner->operands.begin(), inner->operands.end());
    else
      operands.push_back(*form);
  }
  std::sort(operands.begin(), operands.end());
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  std::vector<Form> min;
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool needed = std::none_of(operands.begin(), operands.end(), [&](const Form& other) {
      return other != operands[i] && never_above(other, operands[i]);
    });
    if (needed) min.push_back(operands[i]);
  }
  Form out = min.size() == 1 ? min[0] : atom({ExprKind::kMin, 0, std::move(min)});
  out.exact &= exact;
  return out;
}

Form Forms::apply(ExprKind kind, int64_t value, std::span<const Form> operands) {
  switch (kind) {
    case ExprKind::kConst:
      return constant(value);
    case ExprKind::kSymbol:
    case ExprKind::kCoord:
      return atom({kind, value});
    case ExprKind::kElement:
      return atom({kind, value, {operands[0]}});
    case ExprKind::kAdd:
      return sum(operands[0], operands[1]);
    case ExprKind::kSub:
      return sum(operands[0], operands[1], -1);
    case ExprKind::kMul:
      return product(operands[0], operands[1]);
    case ExprKind::kFloorDiv:
      return floor_div(operands[0], operands[1]);
    case ExprKind::kCeilDiv:
      return negated(floor_div(negated(operands[0]), operands[1]));
    case ExprKind::kMod:
      return sum(operands[0], product(operands[1], floor_div(operands[0], operands[1])), -1);
    case ExprKind::kMin:
      return min(operands[0], operands[1]);
    case ExprKind::kMax:
      return negated(min(negated(operands[0]), negated(operands[1])));
  }
  MKC_BUG("expression of unknown kind");
}

Form Forms::of(const Expr& e, std::span<const Form> coords) {
  std::vector<Form> stack;
  for (const ExprNode& node : e.nodes) {
    if (node.kind == ExprKind::kCoord && static_cast<size_t>(node.value) < coords.size()) {
      stack.push_back(coords[static_cast<size_t>(node.value)]);
      continue;
    }
    const size_t count = is_leaf(node.kind) ? 0 : operand_count(node.kind);
    const size_t first = stack.size() - count;
    Form result = apply(node.kind, node.value, std::span(stack).subspan(first));
    for (size_t i = first; i < stack.size(); ++i) result.exact &= stack[i].exact;
    stack.resize(first);
    stack.push_back(std::move(result));
  }
  return std::move(stack.back());
}

}  // namespace mkc
