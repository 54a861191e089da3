// JSON text is parsed strictly into values.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "runtime/base/json_node.h"

namespace mkrt {

// Returns the document's value. Errors name the file: bad syntax with its byte, a key given twice, more than
// 64 levels.
Result<nlohmann::json> parse_json_text(std::string_view text, const std::string& file);
// Does so, and keeps the order of keys.
Result<nlohmann::ordered_json> parse_ordered_json_text(std::string_view text, const std::string& file);

// Returns what is wrong with the first integer of a JSON text that 64 bits do not hold, or "". The parsers
// make a float of such an integer. A text that is not JSON is read up to its first error.
std::string wide_integer_fault(std::string_view text);

// Returns the offset of a key of the outermost object in a text that parse_json_text() accepts, or npos where
// the key is not there.
size_t find_key(std::string_view text, const std::string& key);

}  // namespace mkrt
