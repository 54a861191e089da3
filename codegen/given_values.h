// Values of a step's symbols and lists from what the emulator's device was given for it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/values.h"
#include "runtime/emulator/counts.h"

namespace mkc {

// As evaluate() takes them. `active_expert_rows`: see step_values().
std::vector<int64_t> given_values(const Symbols& symbols, const mkrt::StepGiven& given,
                                  std::span<const int64_t> active_expert_rows = {});

}  // namespace mkc
