#include "ir/step_symbols.h"

namespace mkc {

SymbolId find_symbol(const Symbols& symbols, std::string_view name) {
  for (SymbolId id : symbols.ids())
    if (symbols[id].name == name) return id;
  return {};
}

StepSymbols step_symbols(const Symbols& symbols) {
  const auto find = [&](const char* name) { return find_symbol(symbols, name); };
  StepSymbols found{find(mkrt::kTokensSymbol),      find(mkrt::kRequestsSymbol),
                    find(mkrt::kLogitRowsSymbol),   find(mkrt::kQLenSymbol),
                    find(mkrt::kKvLenSymbol),       find(mkrt::kFirstRowSymbol),
                    find(kActiveExpertsSymbol),     find(kActiveExpertRowsSymbol),
                    find(kActiveExpertBeginSymbol), {}};
  const SymbolId count = find(kBlocksSymbol);
  if (!count.valid() || !symbols[count].cut) return found;
  found.blocks = {count,
                  find(kBlockRequestSymbol),
                  find(kBlockRowsSymbol),
                  find(kBlockFirstRowSymbol),
                  find(kBlockKvLenSymbol),
                  find(kPartialPositionsSymbol)};
  if (found.blocks->rows.valid()) found.blocks->max_rows = symbols[found.blocks->rows].bounds.hi;
  return found;
}

}  // namespace mkc
