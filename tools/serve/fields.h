// Tables of a request's fields say how each is read, and which are refused.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "runtime/base/json_node.h"
#include "tools/serve/api_request.h"

namespace mkc {

// A Field is read where its value is not null.
struct Field {
  std::string_view name;
  void (*read)(const mkrt::JsonNode& node, ApiRequest& request);
};

// A RefusedField is known to other servers. It is accepted where its value changes nothing.
struct RefusedField {
  std::string_view name;
  bool (*is_neutral)(const nlohmann::json& value);  // not called for null, which is neutral
  std::string_view expected;                        // the neutral values
};

using FieldTables = std::initializer_list<std::span<const Field>>;

// Fields of both endpoints that generate, and what both refuse.
std::span<const Field> generation_fields();
std::span<const RefusedField> refused_fields();

// Reads the fields of a body into `request`. Errors: a body that is no JSON object; the first field that is
// unknown, refused, or has a wrong value.
std::optional<ApiError> read_fields(const nlohmann::json& body, FieldTables tables,
                                    std::span<const RefusedField> refused, ApiRequest& request);

// Parses a body. Errors: bad syntax; text that is no UTF-8; a key given twice; more than 64 levels; a field
// with an object of more than 512 keys.
std::optional<ApiError> parse_body(const std::string& text, nlohmann::json& body);

// Values with bounds. A value of another kind or range is a fault of the node, and the result is `min`.
double read_number(const mkrt::JsonNode& node, double min, double max);
int64_t read_integer(const mkrt::JsonNode& node, int64_t min, int64_t max);
// Returns the ids of a list of at most 2^20, each from 0 to 2^31 - 1.
std::vector<int32_t> read_ids(const mkrt::JsonNode& node);
// Returns the ids of stop tokens, at most 64.
std::vector<int32_t> read_stop_ids(const mkrt::JsonNode& node);

// Returns the only ids that may come. An empty list is a fault, because nothing could come.
std::vector<int32_t> read_allowed_ids(const mkrt::JsonNode& node);

}  // namespace mkc
