#include "tools/serve/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "ir/diag.h"
#include "runtime/base/json_text.h"

namespace mkc {
namespace {

constexpr size_t kMaxIds = 1 << 20;
constexpr size_t kMaxStopIds = 64;
// Objects that keep the order of their keys find a key by looking at all of them.
constexpr size_t kMaxKeys = 512;

// Returns the most keys that an object within a value has. The value is at most 64 levels deep.
size_t widest_object(const nlohmann::json& value) {
  size_t widest = value.is_object() ? value.size() : 0;
  if (value.is_structured())
    for (const nlohmann::json& item : value) widest = std::max(widest, widest_object(item));
  return widest;
}

template <class Row>
const Row* find_row(std::span<const Row> table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Row& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

const Field* find_field(FieldTables tables, std::string_view name) {
  for (const std::span<const Field> table : tables)
    if (const Field* field = find_row(table, name)) return field;
  return nullptr;
}

ApiError unknown_field(const std::string& name, FieldTables tables) {
  std::vector<std::string> known;
  for (const std::span<const Field> table : tables)
    for (const Field& field : table) known.emplace_back(field.name);
  const std::string near = nearest_name(name, known);
  return {.message = fmt::format("found the unknown field \"{}\"{}, expected one of {}", name,
                                 near.empty() ? "" : fmt::format(" (did you mean {}?)", near),
                                 fmt::join(known, ", ")),
          .param = name};
}

std::optional<ApiError> check_refused(const RefusedField& field, const mkrt::JsonNode& node,
                                      const mkrt::Status& status) {
  if (field.is_neutral(node.raw())) return {};
  node.fail_expected(fmt::format("{}: mkc does not serve this field", field.expected));
  return body_error(status.error(), std::string(field.name));
}

}  // namespace

std::optional<ApiError> parse_body(const std::string& text, nlohmann::json& body) {
  mkrt::Result<nlohmann::json> parsed = mkrt::parse_json_text(text, kBody);
  if (!parsed.ok()) return body_error(parsed.error());
  body = std::move(parsed.value());
  if (!body.is_object())
    return ApiError{.message = fmt::format("found a body that is {}, expected an object", body.type_name())};
  for (const auto& [name, value] : body.items())
    if (const size_t keys = widest_object(value); keys > kMaxKeys)
      return ApiError{
          .message = fmt::format("{}: found an object of {} keys, expected at most {}", name, keys, kMaxKeys),
          .param = name};
  return {};
}

std::optional<ApiError> read_fields(const nlohmann::json& body, FieldTables tables,
                                    std::span<const RefusedField> refused, ApiRequest& request) {
  mkrt::Status status;
  const mkrt::JsonNode root(body, kBody, status);
  for (const auto& [name, node] : root.members()) {
    const Field* field = find_field(tables, name);
    const RefusedField* other = field ? nullptr : find_row(refused, name);
    if (!field && !other) return unknown_field(name, tables);
    if (node.is_null()) continue;
    if (other) {
      if (std::optional<ApiError> error = check_refused(*other, node, status)) return error;
      continue;
    }
    field->read(node, request);
    if (!status.ok()) return body_error(status.error(), name);
  }
  return {};
}

double read_number(const mkrt::JsonNode& node, double min, double max) {
  const double value =
      node.raw().is_number() ? node.raw().get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (value >= min && value <= max) return value;
  node.fail_expected(fmt::format("a number from {} to {}", min, max));
  return min;
}

int64_t read_integer(const mkrt::JsonNode& node, int64_t min, int64_t max) {
  const nlohmann::json& raw = node.raw();
  const bool too_large = raw.is_number_unsigned() && raw.get<uint64_t>() > INT64_MAX;
  if (raw.is_number_integer() && !too_large)
    if (const auto value = raw.get<int64_t>(); value >= min && value <= max) return value;
  node.fail_expected(fmt::format("an integer from {} to {}", min, max));
  return min;
}

std::vector<int32_t> read_ids(const mkrt::JsonNode& node) {
  const nlohmann::json& raw = node.raw();
  if (!raw.is_array() || raw.size() > kMaxIds) {
    node.fail_expected(fmt::format("an array of at most {} token ids", kMaxIds));
    return {};
  }
  const auto is_id = [](const nlohmann::json& id) {
    return id.is_number_integer() && id.get<uint64_t>() <= INT32_MAX;
  };
  std::vector<int32_t> ids;
  ids.reserve(raw.size());
  for (const nlohmann::json& id : raw) {
    if (!is_id(id)) return (void)node.items()[ids.size()].integer(INT32_MAX), std::vector<int32_t>();
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

std::vector<int32_t> read_stop_ids(const mkrt::JsonNode& node) {
  if (!node.raw().is_array() || node.raw().size() <= kMaxStopIds) return read_ids(node);
  node.fail_expected(fmt::format("an array of at most {} token ids", kMaxStopIds));
  return {};
}

std::vector<int32_t> read_allowed_ids(const mkrt::JsonNode& node) {
  std::vector<int32_t> ids = read_ids(node);
  if (ids.empty() && node.raw().is_array() && node.raw().empty())
    node.fail("found an empty array, expected at least one id");
  return ids;
}

}  // namespace mkc
