#include "tests/attack/schedules/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tests/attack/schedules/finding.h"

namespace mkc::attack {
namespace {

constexpr int64_t kLimit = int64_t{1} << 60;
constexpr size_t kDepth = 64;

int64_t floor_of(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q * b > a ? q - 1 : q;
}

int64_t apply(ExprKind kind, int64_t a, int64_t b) {
  switch (kind) {
    case ExprKind::kAdd:
      return a + b;
    case ExprKind::kSub:
      return a - b;
    case ExprKind::kMul:
      if (__int128{a} * b > kLimit || __int128{a} * b < -kLimit) throw Finding{"expression", "overflow"};
      return a * b;
    case ExprKind::kMin:
      return std::min(a, b);
    case ExprKind::kMax:
      return std::max(a, b);
    default:
      break;
  }
  if (b <= 0) throw Finding{"expression", "division by 0 or less"};
  if (kind == ExprKind::kFloorDiv) return floor_of(a, b);
  if (kind == ExprKind::kCeilDiv) return -floor_of(-a, b);
  return a - floor_of(a, b) * b;
}

}  // namespace

int64_t Step::at(const Expr& e, std::span<const int64_t> coords) const {
  std::array<int64_t, kDepth> stack;
  size_t top = 0;
  for (const ExprNode& node : e.nodes) {
    const auto index = static_cast<size_t>(node.value);
    if (top + 1 >= kDepth) throw Finding{"expression", "too deep"};
    switch (node.kind) {
      case ExprKind::kConst:
        stack[top++] = node.value;
        continue;
      case ExprKind::kSymbol:
        if (index >= length.size()) throw Finding{"expression", "unknown symbol"};
        stack[top++] = values[index];
        continue;
      case ExprKind::kCoord:
        if (index >= coords.size()) throw Finding{"expression", "unknown coordinate"};
        stack[top++] = coords[index];
        continue;
      case ExprKind::kElement:
        if (index >= length.size() || stack[top - 1] < 0 || stack[top - 1] >= length[index])
          throw Finding{"expression", fmt::format("element {} of a list of {}", stack[top - 1],
                                                  index < length.size() ? length[index] : -1)};
        stack[top - 1] = values[static_cast<size_t>(values[index] + stack[top - 1])];
        continue;
      default:
        --top;
        stack[top - 1] = apply(node.kind, stack[top - 1], stack[top]);
    }
  }
  return stack[0];
}

int64_t Step::element(const Symbols& symbols, const char* list, int64_t i) const {
  const SymbolId id = find_symbol(symbols, list);
  if (!id.valid()) throw Finding{"expression", fmt::format("no list {}", list)};
  return at(mkc::element(id, Expr(i)));
}

Steps::Steps(const TaskProgram& program, std::vector<Hint> hints, int64_t max_tokens)
    : program_(program),
      hints_(std::move(hints)),
      tokens_(bound("T", true, 1)),
      requests_(std::min(bound("B", true, 1), tokens_)),
      rows_(std::min(bound("q_len", true, 1), tokens_)),
      positions_(bound("kv_len", true, 1)),
      min_tokens_(bound("T", false, 1)),
      drawn_tokens_(max_tokens == 0 ? tokens_ : std::max(min_tokens_, std::min(tokens_, max_tokens))),
      drawn_positions_(std::min<int64_t>(positions_, max_tokens == 0 ? 5000 : 1100)) {
  for (const TaskGrid& grid : program.grids) {
    const Access* logits = find_operand(grid, "logits");
    if (grid.body != BodyKind::kRoute || !logits) continue;
    experts_ = program.tensors[logits->tensor].shape.back().constant();
    choices_ = int_attr(grid.attrs, "top_k", 1);
  }
}

int64_t Steps::bound(const char* symbol, bool upper, int64_t fallback) const {
  const SymbolId id = find_symbol(program_.symbols, symbol);
  if (!id.valid()) return fallback;
  const Bounds& b = program_.symbols[id].bounds;
  return upper ? b.hi : b.lo;
}

int64_t Steps::context(int64_t rows, Rng& rng) const {
  const int64_t max = rng.one_in(16) && drawn_positions_ > 1100 ? positions_ : drawn_positions_;
  switch (rng.below(6)) {
    case 0:
      return rows;
    case 1:
      return std::max(rows, max);
    case 2:  // a context that ends near the end of a KV tile or KV chunk
      return std::clamp(256 * rng.between(1, 9) + rng.between(-1, 1), rows, std::max(rows, max));
    case 3:
      return std::clamp(rows + rng.below(20), rows, std::max(rows, max));
    default:
      return rng.between(rows, std::max(rows, max));
  }
}

std::vector<StepRequest> Steps::requests(int64_t count, int64_t tokens, Rng& rng) const {
  std::vector<StepRequest> all(static_cast<size_t>(count));
  int64_t left = tokens - count;
  const bool even = rng.one_in(2);
  for (StepRequest& r : all) {
    const int64_t more = std::min(left, rows_ - 1);
    const int64_t taken = even ? std::min(more, rng.below(2 * left / count + 2)) : rng.between(0, more);
    r.rows += taken, left -= taken;
  }
  std::swap(all.front(), rng.pick(all));
  for (StepRequest& r : all) {
    const int64_t more = std::min(left, std::min(rows_, positions_) - r.rows);
    if (more > 0) r.rows += more, left -= more;
    r.rows = std::min(r.rows, positions_);
    r.kv_len = context(r.rows, rng);
  }
  return all;
}

std::vector<StepRequest> Steps::hinted(const Hint& hint, Rng& rng) const {
  const int64_t v = hint.value;
  if (hint.symbol == "T" && v >= 1 && v <= tokens_)
    return requests(rng.between(1, std::min(v, requests_)), v, rng);
  if ((hint.symbol == "B" || hint.symbol == "R") && v >= 1 && v <= requests_)
    return requests(v, rng.one_in(2) ? v : rng.between(v, tokens_), rng);
  if (hint.symbol == "R" && v >= 1 && v <= tokens_) return requests(1, v, rng);
  std::vector<StepRequest> all = requests(rng.between(1, requests_), rng.between(requests_, tokens_), rng);
  if (hint.symbol == "q_len" && v >= 1 && v <= rows_ && v <= positions_) {
    all.resize(1);
    all[0] = {v, context(v, rng)};
  }
  if (hint.symbol == "kv_len" && v >= 1 && v <= positions_) {
    all.resize(1);
    all[0] = {std::min(all[0].rows, v), v};
  }
  return all;
}

std::vector<int64_t> Steps::route(int64_t tokens, Rng& rng) const {
  if (experts_ == 0) return {};
  std::vector<int64_t> rows(static_cast<size_t>(experts_), 0), order;
  for (int64_t e = 0; e < experts_; ++e) order.push_back(e);
  const bool alike = rng.one_in(4), few = rng.one_in(3);
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t among = few ? std::min(experts_, choices_ + 1) : experts_;
    if (t == 0 || !alike)
      for (int64_t i = 0; i < choices_; ++i)
        std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(rng.between(i, among - 1))]);
    for (int64_t i = 0; i < choices_; ++i) ++rows[static_cast<size_t>(order[static_cast<size_t>(i)])];
  }
  std::erase(rows, 0);
  return rows;
}

void Steps::set_rows_wanted(Step& step) const {
  const SymbolId t = find_symbol(program_.symbols, "T"), r = find_symbol(program_.symbols, "R");
  if (step.all_rows && t.valid() && r.valid()) step.values[r.index] = step.values[t.index];
}

bool Steps::is_step(const Step& step) const {
  for (SymbolId id : program_.symbols.ids()) {
    const Symbol& s = program_.symbols[id];
    const bool given = !s.cut && !s.routed && !s.sums.valid();
    const auto begin = s.is_list() ? static_cast<size_t>(step.values[id.index]) : id.index;
    for (int64_t i = 0; i < (s.is_list() ? step.length[id.index] : 1); ++i) {
      const int64_t value = step.values[begin + static_cast<size_t>(i)];
      if (value >= s.bounds.lo && value <= s.bounds.hi) continue;
      if (given) return false;
      throw Finding{"bounds", fmt::format("{} is {}, its bounds are {} to {}, at {}", s.name, value,
                                          s.bounds.lo, s.bounds.hi, to_text(step))};
    }
  }
  return true;
}

std::optional<Step> Steps::draw(uint32_t number, Rng& rng) const {
  Step step;
  const int64_t max = std::min(requests_, drawn_tokens_);
  if (number < hints_.size())
    step.requests = hinted(hints_[number], rng);
  else if (const size_t i = number - hints_.size(); i == 0)
    step.requests = requests(1, std::max<int64_t>(1, min_tokens_), rng);
  else if (i == 1)
    step.requests = requests(1, drawn_tokens_, rng);
  else if (i == 2)
    step.requests = requests(max, rng.one_in(2) ? drawn_tokens_ : rng.between(max, drawn_tokens_), rng);
  else {
    const int64_t tokens = rng.between(std::max<int64_t>(1, min_tokens_), drawn_tokens_);
    step.requests = requests(rng.between(1, std::min(tokens, requests_)), tokens, rng);
  }
  int64_t tokens = 0;
  for (const StepRequest& r : step.requests) tokens += r.rows;
  step.active_expert_rows = route(tokens, rng);
  step.all_rows =
      number < hints_.size() && hints_[number].symbol == "R" ? hints_[number].value == tokens : rng.one_in(3);
  step.values = step_values(program_.symbols, step.requests, step.active_expert_rows);
  set_rows_wanted(step);
  for (const Symbol& s : program_.symbols)
    step.length.push_back(s.is_list() ? evaluate(s.length, step.values) : -1);
  return is_step(step) ? std::optional(step) : std::nullopt;
}

std::string to_text(const Step& step) {
  std::string text = "[";
  for (const StepRequest& r : step.requests)
    text += fmt::format("{}({}, {})", text.size() > 1 ? ", " : "", r.rows, r.kv_len);
  text += step.all_rows ? "], all rows" : "]";
  if (!step.active_expert_rows.empty())
    text += fmt::format(", {} active experts", step.active_expert_rows.size());
  return text;
}

}  // namespace mkc::attack
