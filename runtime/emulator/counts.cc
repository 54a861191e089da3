#include "runtime/emulator/counts.h"

#include <algorithm>

namespace mkrt {

StepGiven given_of(const MkStep& step) {
  StepGiven given;
  std::copy_n(step.symbol, kMaxSymbols, given.symbol.begin());
  const auto* lists = reinterpret_cast<const int32_t*>(step.lists);
  std::copy_n(lists + kRowsList * kMaxRequests, kMaxRequests, given.rows.begin());
  std::copy_n(lists + kLengthsList * kMaxRequests, kMaxRequests, given.lengths.begin());
  return given;
}

std::optional<WrongCount> find_wrong_count(const StepCounts& expected, std::span<const uint32_t> bank) {
  std::vector<uint32_t> found(bank.begin(), bank.end());
  for (const StepCounts::Log& log : expected.logs) {
    const auto first = found.begin() + log.first;
    std::sort(first, first + log.entries);
  }
  for (uint32_t i = 0; i < found.size(); ++i)
    if (found[i] != expected.counters[i]) return WrongCount{i, found[i], expected.counters[i]};
  return std::nullopt;
}

}  // namespace mkrt
