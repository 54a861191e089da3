#include "scheduler/proof/equality.h"

#include <fmt/format.h>

#include <set>

namespace mkc::proof {
namespace {

constexpr int64_t kMaxValues = 1 << 16;

// Variable is a symbol or coordinate that the expressions mention.
struct Variable {
  bool is_coord = false;
  uint32_t index = 0;
  Bounds bounds;
  auto operator<=>(const Variable& other) const {
    return std::pair(is_coord, index) <=> std::pair(other.is_coord, other.index);
  }
};

// Returns the variables of both expressions. Returns nothing where a list is mentioned or the box is too
// large.
std::optional<std::vector<Variable>> variables_of(const Expr& a, const Expr& b, const Domain& domain) {
  std::set<Variable> found;
  for (const Expr* e : {&a, &b})
    for (const ExprNode& node : e->nodes) {
      if (node.kind == ExprKind::kElement) return std::nullopt;
      const auto index = static_cast<uint32_t>(node.value);
      if (node.kind == ExprKind::kSymbol) found.insert({false, index, domain.symbols[index]});
      if (node.kind == ExprKind::kCoord) found.insert({true, index, domain.coords[index]});
    }
  int64_t values = 1;
  for (const Variable& v : found) {
    const int64_t size = v.bounds.hi - v.bounds.lo + 1;
    if (size < 1 || size > kMaxValues / values) return std::nullopt;
    values *= size;
  }
  return std::vector(found.begin(), found.end());
}

std::string values_of(const Context& c, const std::vector<Variable>& variables,
                      const std::vector<int64_t>& symbols, const std::vector<int64_t>& coords,
                      const std::vector<std::string>& coord_names) {
  std::string text;
  for (const Variable& v : variables)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ",
                        v.is_coord ? coord_names[v.index] : c.p.symbols[SymbolId{v.index}].name,
                        (v.is_coord ? coords : symbols)[v.index]);
  return text;
}

}  // namespace

Comparison compare(Context& c, const Expr& a, const Expr& b, const Domain& domain,
                   const std::vector<std::string>& coord_names) {
  if (c.forms.equal(a, b)) return {Agreement::kAlways};
  const std::optional<std::vector<Variable>> variables = variables_of(a, b, domain);
  if (!variables) return {Agreement::kUnknown};
  std::vector<int64_t> symbols(domain.symbols.size(), 0), coords(domain.coords.size(), 0);
  const auto slot = [&](const Variable& v) -> int64_t& { return (v.is_coord ? coords : symbols)[v.index]; };
  std::vector<bool> known(domain.symbols.size(), false);
  const StepSymbols step = step_symbols(c.p.symbols);
  for (const Variable& v : *variables) {
    slot(v) = v.bounds.lo;
    if (!v.is_coord) known[v.index] = true;
  }
  while (true) {
    const int64_t x = evaluate(a, symbols, coords), y = evaluate(b, symbols, coords);
    if (x != y && may_be(c.p.symbols, step, symbols, known))
      return {Agreement::kDiffers, values_of(c, *variables, symbols, coords, coord_names), x, y};
    size_t next = 0;
    for (; next < variables->size(); ++next) {
      const Variable& v = (*variables)[next];
      if (++slot(v) <= v.bounds.hi) break;
      slot(v) = v.bounds.lo;
    }
    if (next == variables->size()) return {Agreement::kWalked};
  }
}

}  // namespace mkc::proof
