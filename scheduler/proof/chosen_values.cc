#include "scheduler/proof/chosen_values.h"

#include <algorithm>
#include <random>
#include <set>

#include "ir/values.h"

namespace mkc {
namespace {

// Visits every expression of the program that may mention symbols.
template <class Visit>
void for_each_expr(const TaskProgram& program, Visit visit) {
  const auto region = [&](const Region& r) {
    for (const Range& range : r) visit(range.offset), visit(range.size);
  };
  for (const Event& event : program.events) {
    visit(event.expect);
    for (const Expr& dim : event.dims) visit(dim);
  }
  for (const TaskGrid& grid : program.grids) {
    for (const Coord& c : grid.coords) visit(c.extent);
    for (const Access& a : grid.reads) region(a.region);
    for (const Access& a : grid.writes) region(a.region);
    for (const Notify& n : grid.notifies) region(n.cells);
    for (const Wait& w : grid.waits)
      for (const Expr& e : w.cell) visit(e);
  }
}

// Returns, by symbol, its bounds, the other symbols' bounds, and the first and last boundary of each divisor.
std::vector<std::vector<int64_t>> interesting_values(const TaskProgram& program) {
  std::set<int64_t> bounds_of_all, divisors;
  for (const Symbol& s : program.symbols) bounds_of_all.insert({s.bounds.lo, s.bounds.hi});
  for_each_expr(program, [&](const Expr& e) {
    if (!uses_symbol(e)) return;
    for (size_t i = 1; i < e.nodes.size(); ++i) {
      const bool divides = e.nodes[i].kind == ExprKind::kFloorDiv || e.nodes[i].kind == ExprKind::kCeilDiv ||
                           e.nodes[i].kind == ExprKind::kMod;
      if (divides && e.nodes[i - 1].kind == ExprKind::kConst) divisors.insert(e.nodes[i - 1].value);
    }
  });
  std::vector<std::vector<int64_t>> values;
  for (const Symbol& s : program.symbols) {
    std::set<int64_t> mine = bounds_of_all;
    for (int64_t d : divisors) mine.insert({d, d + 1, s.bounds.hi / d * d, s.bounds.hi / d * d + 1});
    std::erase_if(mine, [&](int64_t v) { return v < s.bounds.lo || v > s.bounds.hi; });
    values.emplace_back(mine.begin(), mine.end());
  }
  return values;
}

// Returns corners first. One symbol at a time follows at its interesting values, with the others at a corner.
std::vector<std::vector<int64_t>> scalar_values(const TaskProgram& program) {
  const uint32_t count = program.symbols.size();
  std::vector<std::vector<int64_t>> samples;
  const auto add = [&](const std::vector<int64_t>& s) {
    if (std::find(samples.begin(), samples.end(), s) == samples.end()) samples.push_back(s);
  };
  const auto corner = [&](uint32_t mask) {
    std::vector<int64_t> at;
    for (SymbolId s : program.symbols.ids()) {
      const Bounds b = program.symbols[s].bounds;
      at.push_back(mask >> s.index & 1 ? b.hi : b.lo);
    }
    return at;
  };
  const uint32_t corners = 1u << std::min(count, 8u);
  add(corner(0));
  add(corner(corners - 1));
  for (uint32_t mask = 1; mask + 1 < corners; ++mask) add(corner(mask));
  const auto values = interesting_values(program);
  for (uint32_t s = 0; s < count; ++s)
    for (int64_t value : values[s])
      for (uint32_t mask = 0; mask < corners; ++mask) {
        std::vector<int64_t> at = corner(mask);
        at[s] = value;
        add(at);
      }
  // Symbols may be tied to each other (kv_len >= T). Values that make a region's size negative belong to no
  // step.
  std::erase_if(samples, [&](const std::vector<int64_t>& at) {
    bool negative = false;
    const auto look = [&](const std::vector<Access>& accesses) {
      for (const Access& a : accesses)
        for (const Range& r : a.region)
          negative = negative || (!uses_coord(r.size) && evaluate(r.size, at) < 0);
    };
    for (const TaskGrid& grid : program.grids) look(grid.reads), look(grid.writes);
    return negative;
  });
  return samples;
}

// Returns lengths of a context around which the program's expressions change. The result has 1 and the
// context. Each constant in an expression with a list element adds itself, its neighbours and its double.
// Each bound of a cut symbol in an expression with a list element adds the same.
std::vector<int64_t> interesting_lengths(const TaskProgram& program, int64_t context) {
  std::set<int64_t> lengths{1, context};
  const auto add = [&](int64_t n) {
    if (n > 1) lengths.insert({n - 1, n, n + 1, 2 * n});
  };
  for_each_expr(program, [&](const Expr& e) {
    const auto is_element = [](const ExprNode& node) { return node.kind == ExprKind::kElement; };
    if (!std::any_of(e.nodes.begin(), e.nodes.end(), is_element)) return;
    for (const ExprNode& node : e.nodes) {
      if (node.kind == ExprKind::kConst) add(node.value);
      if (node.kind != ExprKind::kSymbol) continue;
      const Symbol& s = program.symbols[SymbolId{static_cast<uint32_t>(node.value)}];
      if (s.cut) add(s.bounds.lo), add(s.bounds.hi);
    }
  });
  std::erase_if(lengths, [&](int64_t n) { return n < 1 || n > context; });
  return {lengths.begin(), lengths.end()};
}

class Batches {
 public:
  Batches(const TaskProgram& program, const StepSymbols& step)
      : symbols_(program.symbols),
        logit_rows_(step.logit_rows),
        max_tokens_(symbols_[step.tokens].bounds.hi),
        max_requests_(std::min(symbols_[step.requests].bounds.hi, max_tokens_)),
        max_rows_(symbols_[step.q_len].bounds.hi),
        context_(symbols_[step.kv_len].bounds.hi),
        lengths_(interesting_lengths(program, context_)) {}

  std::vector<std::vector<int64_t>> all() {
    const int64_t chunk = std::min({max_tokens_, max_rows_, context_});
    add({{1, 1}}, kSpread);
    add(mixed(8), kAllButOne);
    add({{chunk, chunk}}, kSpread);
    add({{chunk, context_}}, kTogether);
    add({{1, context_}}, kSpread);
    add(mixed(max_requests_), kSpread);
    std::mt19937 random(1);
    for (int i = 0; i < 6; ++i) add(drawn(random), kDrawn, &random);
    add(std::vector<StepRequest>(static_cast<size_t>(max_requests_), {1, context_}), kTogether);
    return std::move(values_);
  }

 private:
  // Choices says how tokens choose experts. kSpread uses as many experts as possible. kTogether gives all
  // tokens the same experts. kAllButOne gives one choice of one token another expert. kDrawn chooses at
  // random, among experts of different weight.
  enum Choices { kSpread, kTogether, kAllButOne, kDrawn };

  // Returns the rows of each active expert.
  std::vector<int64_t> active_expert_rows(int64_t tokens, Choices choices, std::mt19937* random) const {
    const Routing routing = routing_of(symbols_);
    if (choices == kSpread || routing.choices == 0) return {};
    std::vector<int64_t> rows(static_cast<size_t>(routing.choices), tokens);
    if (choices == kAllButOne && tokens > 1 && routing.experts > routing.choices) {
      --rows.back();
      rows.push_back(1);
    }
    return choices == kDrawn ? drawn_rows(routing, tokens, *random) : rows;
  }

  static std::vector<int64_t> drawn_rows(const Routing& routing, int64_t tokens, std::mt19937& random) {
    std::vector<int64_t> rows(static_cast<size_t>(routing.experts), 0);
    for (int64_t t = 0; t < tokens; ++t) {
      std::vector<size_t> chosen;
      while (chosen.size() < static_cast<size_t>(routing.choices)) {
        const uint32_t max = 1 + random() % static_cast<uint32_t>(routing.experts);
        const size_t expert = random() % max;
        if (std::find(chosen.begin(), chosen.end(), expert) != chosen.end()) continue;
        chosen.push_back(expert);
        ++rows[expert];
      }
    }
    std::erase(rows, 0);
    return rows;
  }

  void add(std::vector<StepRequest> requests, Choices choices, std::mt19937* random = nullptr) {
    int64_t tokens = 0;
    for (const StepRequest& r : requests) tokens += r.rows;
    std::vector<int64_t> values =
        step_values(symbols_, requests, active_expert_rows(tokens, choices, random));
    // One step has logits of the last rows, the next step logits of all rows.
    if (logit_rows_.valid() && values_.size() % 2 == 1) values[logit_rows_.index] = tokens;
    if (std::find(values_.begin(), values_.end(), values) == values_.end())
      values_.push_back(std::move(values));
  }

  // Returns requests of one row each, at the interesting lengths in turn. The last request is a chunk that
  // fills the remaining room. The chunk lies at the start of a context if necessary.
  std::vector<StepRequest> mixed(int64_t max) const {
    std::vector<StepRequest> requests;
    const auto count = static_cast<size_t>(std::min(max, max_requests_));
    for (size_t i = 0; i < count; ++i) requests.push_back({1, lengths_[(i * 5 + 2) % lengths_.size()]});
    StepRequest& last = requests.back();
    last.rows = std::min({max_tokens_ - static_cast<int64_t>(count) + 1, max_rows_, context_});
    last.kv_len = std::max(last.kv_len, last.rows);
    return requests;
  }

  std::vector<StepRequest> drawn(std::mt19937& random) const {
    std::vector<StepRequest> requests;
    const int64_t count = 1 + random() % static_cast<uint32_t>(std::min<int64_t>(max_requests_, 8));
    int64_t left = max_tokens_ - count;
    for (int64_t i = 0; i < count; ++i) {
      // The lengths spread over the orders of magnitude.
      const int64_t max = std::max<int64_t>(1, context_ >> (random() % 12));
      StepRequest r{1, 1 + static_cast<int64_t>(random() % static_cast<uint32_t>(max))};
      const int64_t more = std::min({left, max_rows_ - 1, r.kv_len - 1});
      if (random() % 2 == 0) r.rows += more > 0 ? random() % static_cast<uint32_t>(more + 1) : 0;
      left -= r.rows - 1;
      requests.push_back(r);
    }
    return requests;
  }

  const Symbols& symbols_;
  const SymbolId logit_rows_;
  const int64_t max_tokens_, max_requests_, max_rows_, context_;
  const std::vector<int64_t> lengths_;
  std::vector<std::vector<int64_t>> values_;
};

}  // namespace

std::vector<std::vector<int64_t>> chosen_values(const TaskProgram& program) {
  const Symbols& symbols = program.symbols;
  const StepSymbols step = step_symbols(symbols);
  const bool has_requests =
      step.tokens.valid() && step.requests.valid() && step.q_len.valid() && step.kv_len.valid();
  return has_requests ? Batches(program, step).all() : scalar_values(program);
}

}  // namespace mkc
