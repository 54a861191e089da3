// What the kernel samples, beside what the host samples from the same logits.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/session/session.h"

namespace mkrt {

// Samples `count` tokens after a prompt by parameters of every kind. {"samples", "different"}, of the first
// that differs also "sampling" (which of the parameters), "number", "found" and "expected". Errors: those of
// generate.
Result<nlohmann::json> compare_samples(Session& session, std::span<const int32_t> prompt, uint32_t count);

}  // namespace mkrt
