// StepSymbols has the symbols that describe a step, found by their names once for each pass.
#pragma once

#include <optional>
#include <string_view>

#include "ir/tensor.h"
#include "runtime/abi/symbols.h"

namespace mkc {

using Symbols = Table<SymbolId, Symbol>;
SymbolId find_symbol(const Symbols& symbols, std::string_view name);  // invalid where there is none

// Names of the cut symbols (RowBlocks).
inline constexpr const char *kBlocksSymbol = "blocks", *kBlockRequestSymbol = "block_request",
                            *kBlockRowsSymbol = "block_rows", *kBlockFirstRowSymbol = "block_first_row",
                            *kBlockKvLenSymbol = "block_kv_len",
                            *kPartialPositionsSymbol = "partial_positions";
// Names of the routed symbols, which are also the roles of their tables.
inline constexpr const char *kActiveExpertsSymbol = "active_experts",
                            *kActiveExpertRowsSymbol = "active_expert_rows",
                            *kActiveExpertBeginSymbol = "active_expert_begin";

// Attention cuts the rows of a step into blocks. Each block holds `max_rows` consecutive rows of one request;
// a request's last block holds the remainder.
//
// The blocks that are not their request's last come first, in the order of their rows. The last blocks
// follow, one per request. Each block has its request, its number of rows, its first row, and the positions
// in the request's cache up to its last row.
struct RowBlocks {
  SymbolId count, request, rows, first_row, kv_len;
  // Positions of one partial (see partial_positions() in values.h). An invalid id means that each KV tile is
  // a partial.
  SymbolId partial_positions;
  int64_t max_rows = 0;
};

// The ids are invalid where a program has no such symbol.
struct StepSymbols {
  SymbolId tokens, requests, logit_rows;  // numbers
  SymbolId q_len, kv_len, first_row;      // lists over the requests
  SymbolId active_experts, active_expert_rows, active_expert_begin;
  std::optional<RowBlocks> blocks;  // nothing where rows are not cut
};
StepSymbols step_symbols(const Symbols& symbols);

}  // namespace mkc
