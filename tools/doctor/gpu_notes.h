// Doctor says what else about a GPU and its driver may spoil checks and figures.
#pragma once

#include <string>
#include <vector>

#include "runtime/device/device_facts.h"
#include "tools/doctor/checks.h"

namespace mkc {

// Returns sentences that name what was found and what was expected. `assembler` is the name of the one that
// is used, or "". `checked` is null where the GPU was not checked.
std::vector<std::string> gpu_notes(const mkrt::DeviceFacts& facts, const std::string& assembler,
                                   const CheckReport* checked);

}  // namespace mkc
