// Counters of reports start without a value.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

namespace mkc::attack {

// Adds to a counter. A counter without a value counts from 0.
inline void bump(nlohmann::ordered_json& at, uint64_t by = 1) {
  at = (at.is_null() ? 0 : at.get<uint64_t>()) + by;
}

}  // namespace mkc::attack
