#include "tests/attack/schedules/mutate.h"

#include "ir/values.h"

namespace mkc::attack {

Edit::Point Edit::point() {
  std::vector<SymbolId> known;
  for (const char* name : {"T", "T", "B", "R"})
    if (const SymbolId id = find_symbol(s.program.symbols, name); id.valid()) known.push_back(id);
  if (known.empty()) return {};
  const Symbol& symbol = s.program.symbols[rng.pick(known)];
  const int64_t value = rng.between(symbol.bounds.lo, symbol.bounds.hi);
  hints.push_back({symbol.name, value});
  return {mkc::symbol(find_symbol(s.program.symbols, symbol.name)), value, symbol.bounds.lo,
          symbol.bounds.hi};
}

Expr Edit::only_at(const Point& p) {
  return max(0, Expr(1) - max(p.symbol - p.value, Expr(p.value) - p.symbol));
}

GridId Edit::any_grid() {
  return GridId{static_cast<uint32_t>(rng.below(s.program.grids.size()))};
}

std::vector<MutantClass> all_classes() {
  std::vector<MutantClass> all;
  for (const auto classes : {wait_classes(), count_classes(), stream_classes(), memory_classes(),
                             region_classes(), program_classes()})
    all.insert(all.end(), classes.begin(), classes.end());
  return all;
}

}  // namespace mkc::attack
