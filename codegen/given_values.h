// The emulator is given a step, from which the values of its symbols and lists follow.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/values.h"
#include "runtime/emulator/counts.h"

namespace mkc {

// Returns the values in the form that evaluate() takes. `active_expert_rows` is that of step_values().
std::vector<int64_t> given_values(const Symbols& symbols, const mkrt::StepGiven& given,
                                  std::span<const int64_t> active_expert_rows = {});

}  // namespace mkc
