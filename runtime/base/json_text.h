// JSON text to values, strictly.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runtime/base/json_node.h"

namespace mkrt {

// Errors, naming the file: syntax with its byte, keys given twice, more than 64 levels.
Result<nlohmann::json> parse_json_text(std::string_view text, const std::string& file);

}  // namespace mkrt
