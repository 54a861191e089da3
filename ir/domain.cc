#include "ir/domain.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace mkc {
namespace {

constexpr int kMaxSplits = 8;                     // most min and max operators split on one path
constexpr int64_t kMaxFactor = int64_t{1} << 50;  // no bound is found for larger factors

bool is_division(ExprKind kind) {
  return kind == ExprKind::kFloorDiv || kind == ExprKind::kCeilDiv || kind == ExprKind::kMod;
}

Expr part_of(const Expr& e, size_t begin, size_t end) {
  Expr out;
  out.nodes.assign(e.nodes.begin() + static_cast<ptrdiff_t>(begin),
                   e.nodes.begin() + static_cast<ptrdiff_t>(end));
  return out;
}

// Returns the first node of the second operand. The operator is the last node before `end`.
size_t second_operand(const Expr& e, size_t end) {
  size_t at = end - 1;
  for (size_t wanted = 1; wanted > 0;) {
    const ExprKind kind = e.nodes[--at].kind;
    wanted += is_leaf(kind) ? 0 : operand_count(kind);
    --wanted;
  }
  return at;
}

// Linear is a constant plus a sum of factor * part. A part is neither a sum nor a constant multiple.
struct Linear {
  std::vector<std::pair<Expr, int64_t>> terms;
  int64_t constant = 0;
  bool overflow = false;

  void add_constant(int64_t value) { overflow |= __builtin_add_overflow(constant, value, &constant); }
  void add(const Expr& part, int64_t factor) {
    auto at = std::find_if(terms.begin(), terms.end(), [&](const auto& term) { return term.first == part; });
    if (at == terms.end()) at = terms.insert(at, {part, 0});
    overflow |= __builtin_add_overflow(at->second, factor, &at->second);
    if (at->second == 0) terms.erase(at);
  }
  void add(const Linear& other, int64_t factor) {
    overflow |= other.overflow;
    const auto times = [&](int64_t value) {
      int64_t product = 0;
      overflow |= __builtin_mul_overflow(value, factor, &product);
      return product;
    };
    add_constant(times(other.constant));
    for (const auto& [part, f] : other.terms) add(part, times(f));
  }
};

Linear linear(const Expr& e) {
  Linear out;
  const ExprNode& last = e.nodes.back();
  if (is_leaf(last.kind)) {
    if (last.kind == ExprKind::kConst)
      out.constant = last.value;
    else
      out.terms.emplace_back(e, 1);
    return out;
  }
  if (last.kind == ExprKind::kElement) {
    out.terms.emplace_back(e, 1);
    return out;
  }
  const size_t split = second_operand(e, e.nodes.size());
  const Expr a = part_of(e, 0, split), b = part_of(e, split, e.nodes.size() - 1);
  if (last.kind == ExprKind::kAdd || last.kind == ExprKind::kSub) {
    out = linear(a);
    out.add(linear(b), last.kind == ExprKind::kAdd ? 1 : -1);
  } else if (last.kind == ExprKind::kMul && (a.is_const() || b.is_const())) {
    out.add(linear(a.is_const() ? b : a), (a.is_const() ? a : b).constant());
  } else {
    out.terms.emplace_back(e, 1);
  }
  return out;
}

int64_t clamp(__int128 value) {
  return static_cast<int64_t>(std::clamp<__int128>(value, INT64_MIN, INT64_MAX));
}

// Returns an upper bound of the sum. Each part is bounded by itself.
int64_t upper_of_parts(const Linear& sum, const Domain& domain) {
  __int128 total = sum.constant;
  for (const auto& [part, factor] : sum.terms) {
    if (factor < -kMaxFactor || factor > kMaxFactor) return INT64_MAX;
    const Bounds b = bounds(part, domain.symbols, domain.coords);
    total += static_cast<__int128>(factor) * (factor > 0 ? b.hi : b.lo);
  }
  return clamp(total);
}

int64_t upper(Linear sum, const Domain& domain, int splits);

// Returns an upper bound of the sum, whose term at `at` is a min or max. Each operand takes the term's place
// once, and the two bounds are combined.
int64_t upper_split(const Linear& sum, size_t at, const Domain& domain, int splits) {
  const auto& [part, factor] = sum.terms[at];
  const size_t split = second_operand(part, part.nodes.size());
  int64_t results[2];
  for (int i : {0, 1}) {
    Linear one = sum;
    one.terms.erase(one.terms.begin() + static_cast<ptrdiff_t>(at));
    one.add(linear(i == 0 ? part_of(part, 0, split) : part_of(part, split, part.nodes.size() - 1)), factor);
    results[i] = upper(std::move(one), domain, splits - 1);
  }
  const bool takes_min = (part.nodes.back().kind == ExprKind::kMin) == (factor > 0);
  return takes_min ? std::min(results[0], results[1]) : std::max(results[0], results[1]);
}

int64_t upper(Linear sum, const Domain& domain, int splits) {
  if (sum.overflow) return INT64_MAX;
  if (splits == 0) return upper_of_parts(sum, domain);
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    const ExprKind kind = sum.terms[i].first.nodes.back().kind;
    if (kind == ExprKind::kMin || kind == ExprKind::kMax) return upper_split(sum, i, domain, splits);
  }
  // The last coordinate goes first, because its extent may depend on the coordinates before it.
  for (size_t c = domain.extents.size(); c-- > 0;) {
    const auto at = std::find_if(sum.terms.begin(), sum.terms.end(), [&](const auto& term) {
      return term.first == coord(static_cast<uint32_t>(c));
    });
    if (at == sum.terms.end()) continue;
    const auto i = static_cast<size_t>(at - sum.terms.begin());
    const auto [part, factor] = sum.terms[i];
    sum.terms.erase(sum.terms.begin() + static_cast<ptrdiff_t>(i));
    if (factor > 0) {  // the coordinate's largest value is extent - 1, its smallest is 0
      sum.add(linear(domain.extents[c]), factor);
      sum.add_constant(-factor);
    }
    return upper(std::move(sum), domain, splits);
  }
  return upper_of_parts(sum, domain);
}

// Returns the bounds of an operator's result. Requires sound bounds of the operands and a divisor of at least
// 1.
Bounds combine(ExprKind kind, Bounds a, Bounds b) {
  Expr e;
  e.nodes = {{ExprKind::kSymbol, 0}, {ExprKind::kSymbol, 1}, {kind, 0}};
  return bounds(e, std::vector<Bounds>{a, b});
}

bool too_large(ExprKind kind, Bounds a, Bounds b) {
  if (kind != ExprKind::kMul) return false;  // a sum or difference stays below 2^62
  const auto magnitude = [](Bounds x) { return std::max(-x.lo, x.hi); };
  return static_cast<__int128>(magnitude(a)) * magnitude(b) > kMaxValue;
}

bool is_list(const Domain& domain, int64_t symbol) {
  const auto index = static_cast<size_t>(symbol);
  return index < domain.lengths.size() && !domain.lengths[index].is_const(0);
}

std::optional<std::string> leaf_fault(const ExprNode& node, const Domain& domain) {
  if (node.kind == ExprKind::kConst) return std::nullopt;
  const bool is_coord = node.kind == ExprKind::kCoord;
  const size_t known = is_coord ? domain.coords.size() : domain.symbols.size();
  if (static_cast<uint64_t>(node.value) >= known)
    return fmt::format("{} {}{} does not exist here", is_coord ? "coordinate" : "symbol",
                       is_coord ? '$' : '#', node.value);
  if (node.kind == ExprKind::kSymbol && is_list(domain, node.value))
    return fmt::format("symbol #{} is a list and lacks an index", node.value);
  if (node.kind == ExprKind::kElement && !is_list(domain, node.value))
    return fmt::format("symbol #{} is no list", node.value);
  return std::nullopt;
}

// Returns the fault of a list element's index. Requires that leaf_fault() found nothing.
std::optional<std::string> index_fault(const Expr& index, const ExprNode& node, const Domain& domain) {
  if (const int64_t min = lower_bound(index, domain); min < 0)
    return fmt::format("the index of symbol #{} may be {}", node.value, min);
  const Expr& length = domain.lengths[static_cast<size_t>(node.value)];
  if (const int64_t beyond = upper_bound(index - length, domain); beyond >= 0)
    return fmt::format("the index of symbol #{} may be {} beyond its last", node.value, beyond + 1);
  return std::nullopt;
}

}  // namespace

void add_coord(Domain& domain, const Expr& extent) {
  domain.extents.push_back(extent);
  domain.coords.push_back({0, std::max<int64_t>(0, bounds(extent, domain.symbols, domain.coords).hi - 1)});
}

Result<Bounds> checked_bounds(const Expr& e, const Domain& domain, int64_t limit) {
  struct Operand {
    size_t begin;  // index of the operand's first node
    Bounds bounds;
  };
  std::vector<Operand> stack;
  for (size_t i = 0; i < e.nodes.size(); ++i) {
    const ExprNode& node = e.nodes[i];
    const bool names_symbol = is_leaf(node.kind) || node.kind == ExprKind::kElement;
    if (names_symbol)
      if (std::optional<std::string> fault = leaf_fault(node, domain)) return Error{*fault};
    if (!is_leaf(node.kind) && stack.size() < operand_count(node.kind))
      return Error{"an operator lacks an operand"};
    if (node.kind == ExprKind::kElement) {
      if (std::optional<std::string> fault = index_fault(part_of(e, stack.back().begin, i), node, domain))
        return Error{*fault};
      stack.back().bounds = domain.symbols[static_cast<size_t>(node.value)];
    } else if (is_leaf(node.kind)) {
      Bounds value{node.value, node.value};
      if (node.kind != ExprKind::kConst)
        value = (node.kind == ExprKind::kSymbol ? domain.symbols
                                                : domain.coords)[static_cast<size_t>(node.value)];
      stack.push_back({i, value});
    } else {
      const Bounds divisor = stack.back().bounds;
      stack.pop_back();
      Bounds& value = stack.back().bounds;
      if (is_division(node.kind) && divisor.lo < 1)
        return Error{fmt::format("the divisor may be {}, expected at least 1", divisor.lo)};
      if (too_large(node.kind, value, divisor)) return Error{"a product may exceed 2^60"};
      value = combine(node.kind, value, divisor);
    }
    const Bounds& now = stack.back().bounds;
    if (now.lo < -kMaxValue || now.hi > kMaxValue)
      return Error{fmt::format("values from {} to {} exceed 2^60", now.lo, now.hi)};
    if (now.lo < -limit || now.hi > limit)
      return Error{fmt::format("values from {} to {} exceed {}", now.lo, now.hi, limit)};
  }
  if (stack.size() != 1) return Error{"operands without an operator"};
  return stack.back().bounds;
}

int64_t upper_bound(const Expr& e, const Domain& domain) {
  return upper(linear(e), domain, kMaxSplits);
}

int64_t lower_bound(const Expr& e, const Domain& domain) {
  Linear negated;
  negated.add(linear(e), -1);
  const int64_t greatest = upper(std::move(negated), domain, kMaxSplits);
  return greatest == INT64_MIN ? INT64_MAX : -greatest;
}

}  // namespace mkc
