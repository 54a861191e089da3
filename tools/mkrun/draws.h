// What the kernel draws, beside what the host draws from the same logits.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/session.h"

namespace mkrt {

// Draws `count` tokens after a prompt by parameters of every kind. {"draws", "different"}, of the first that
// differs also "sampling" (which of the parameters), "number", "found" and "expected". Errors: those of
// generate.
Result<nlohmann::json> compare_draws(Session& session, std::span<const int32_t> prompt, uint32_t count);

}  // namespace mkrt
