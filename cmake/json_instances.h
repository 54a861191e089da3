// nlohmann-json with its classes declared as instantiated elsewhere (json_instances.cc). Precompiled sets hold
// this header, so that no source compiles the same parser again.
#pragma once

#include <nlohmann/json.hpp>

extern template class nlohmann::basic_json<>;
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
