#include "codegen/given_values.h"

#include <utility>

namespace mkc {

std::vector<int64_t> given_values(const Symbols& symbols, const mkrt::StepGiven& given,
                                  std::span<const int64_t> active_expert_rows) {
  const StepSymbols step = step_symbols(symbols);
  uint32_t place = 0;
  int64_t requests = 1, tokens = 1;
  std::vector<std::pair<SymbolId, int64_t>> plain;
  for (SymbolId id : symbols.ids()) {
    const Symbol& s = symbols[id];
    if (s.routed || s.cut) continue;
    const int64_t value = given.symbol[place++];
    if (s.is_list()) continue;
    plain.emplace_back(id, value);
    if (id == step.requests) requests = value;
    if (id == step.tokens) tokens = value;
  }
  std::vector<StepRequest> of_step;
  if (!step.requests.valid())
    of_step = {{tokens, given.lengths[0]}};
  else
    for (int64_t b = 0; b < requests; ++b)
      of_step.push_back({given.rows[static_cast<size_t>(b)], given.lengths[static_cast<size_t>(b)]});
  std::vector<int64_t> values = step_values(symbols, of_step, active_expert_rows);
  for (const auto& [id, value] : plain) values[id.index] = value;
  return values;
}

}  // namespace mkc
