// The kernel's samples are compared with those that the host takes from the kernel's logits.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/session/session.h"

namespace mkrt {

// Samples `count` tokens after a prompt, by parameters of every kind. Returns {"samples", "different"}. The
// first difference adds "sampling" (index of the parameters), "number", "found" and "expected". Errors: those
// of generate.
Result<nlohmann::json> compare_samples(Session& session, std::span<const int32_t> prompt, uint32_t count);

}  // namespace mkrt
