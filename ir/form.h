// Expressions have canonical forms. Two expressions of one form are equal for all values.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "ir/expr.h"

namespace mkc {

// A form is a sum of integer multiples of products of atoms. An atom is a symbol, a coordinate, a list
// element, a floor division or a minimum. Forms numbers the atoms.
struct Form {
  using Product = std::vector<uint32_t>;           // atoms in ascending order; empty: the constant
  std::vector<std::pair<Product, int64_t>> terms;  // in ascending order, no factor is 0
  bool exact = true;  // false: a factor left 64 bits, and the form equals nothing

  bool is_const() const { return exact && (terms.empty() || (terms.size() == 1 && terms[0].first.empty())); }
  bool is_const(int64_t value) const { return is_const() && constant() == value; }
  int64_t constant() const { return terms.empty() ? 0 : terms[0].second; }  // requires is_const()
  auto operator<=>(const Form&) const = default;
};

// Forms holds the forms of one program and the atoms that they share.
//
// Products are multiplied out. Floordiv and min express ceildiv, mod and max. Multiples of a constant divisor
// are taken out of a division. A minimum keeps each operand once, and only the least of operands that differ
// by a constant.
class Forms {
 public:
  // Returns the form of `e` with coordinate i replaced by coords[i], for each i within coords.
  Form of(const Expr& e, std::span<const Form> coords = {});

  // False leaves the question open: the expressions may still be equal.
  bool equal(const Expr& a, const Expr& b) { return equal(of(a), of(b)); }
  static bool equal(const Form& a, const Form& b) { return a.exact && b.exact && a == b; }

  // The functions below build forms of a constant, of a coordinate and of operators. sum() returns a +
  // factor_of_b * b.
  static Form constant(int64_t value);
  Form coord(uint32_t position);
  static Form sum(const Form& a, const Form& b, int64_t factor_of_b = 1);
  static Form product(const Form& a, const Form& b);
  Form floor_div(const Form& a, const Form& b);
  Form min(const Form& a, const Form& b);

 private:
  struct Atom {
    ExprKind kind = ExprKind::kConst;
    int64_t value = 0;  // as in ExprNode
    std::vector<Form> operands{};
    auto operator<=>(const Atom&) const = default;
  };
  Form atom(Atom a);
  Form apply(ExprKind kind, int64_t value, std::span<const Form> operands);

  std::map<Atom, uint32_t> numbers_;
  std::vector<Atom> atoms_;
};

}  // namespace mkc
