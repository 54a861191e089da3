#include "runtime/base/json_node.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace mkrt {
namespace {

const nlohmann::json& null_value() {
  static const nlohmann::json null;
  return null;
}

// Returns the JSON text of a value of at most 80 bytes, else the kind of the value.
std::string shown(const nlohmann::json& value) {
  constexpr size_t kLongest = 80;
  if (value.is_structured()) return fmt::format("an {}", value.type_name());
  std::string text = value.dump();
  return text.size() <= kLongest ? text : fmt::format("a {} of {} bytes", value.type_name(), text.size());
}

}  // namespace

JsonNode::JsonNode(const nlohmann::json& value, const std::string& file, Status& status)
    : value_(&value), file_(&file), status_(&status) {}

JsonNode::JsonNode(const nlohmann::json& value, const JsonNode& parent, std::string path)
    : value_(&value), file_(parent.file_), status_(parent.status_), path_(std::move(path)) {}

void JsonNode::fail(std::string_view message) const {
  if (failed()) return;
  *status_ = Error{fmt::format("{}: error: {}{}{}", *file_, path_, path_.empty() ? "" : ": ", message)};
}

void JsonNode::fail_unsupported(std::string_view supported) const {
  fail(fmt::format("found {}, supported: {}", shown(*value_), supported));
}

void JsonNode::fail_expected(std::string_view expected) const {
  fail(fmt::format("found {}, expected {}", shown(*value_), expected));
}

bool JsonNode::is_null() const {
  return value_->is_null();
}

JsonNode JsonNode::at(std::string_view key) const {
  if (value_->is_object() && !value_->contains(key)) fail(fmt::format("key \"{}\" is missing", key));
  return optional(key);
}

JsonNode JsonNode::optional(std::string_view key) const {
  if (!value_->is_object()) fail_expected("an object");
  const bool present = value_->is_object() && value_->contains(key);
  return {present ? (*value_)[key] : null_value(), *this,
          fmt::format("{}{}{}", path_, path_.empty() ? "" : ".", key)};
}

void JsonNode::allow_keys(std::initializer_list<std::string_view> known) const {
  if (!value_->is_object()) return fail_expected("an object");
  for (const auto& [key, value] : value_->items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      return fail(fmt::format("unknown key \"{}\", known: {}", key, fmt::join(known, ", ")));
  }
}

std::vector<JsonNode> JsonNode::items() const {
  std::vector<JsonNode> nodes;
  if (!value_->is_array()) {
    fail_expected("an array");
    return nodes;
  }
  for (const nlohmann::json& item : *value_)
    nodes.push_back(JsonNode(item, *this, fmt::format("{}[{}]", path_, nodes.size())));
  return nodes;
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  std::vector<std::pair<std::string, JsonNode>> nodes;
  if (!value_->is_object()) {
    fail_expected("an object");
    return nodes;
  }
  for (const auto& [key, value] : value_->items()) nodes.emplace_back(key, at(key));
  return nodes;
}

std::string JsonNode::string() const {
  if (value_->is_string()) return value_->get<std::string>();
  fail_expected("a string");
  return {};
}

bool JsonNode::boolean() const {
  if (value_->is_boolean()) return value_->get<bool>();
  fail_expected("true or false");
  return false;
}

bool JsonNode::boolean_or(bool if_null) const {
  return is_null() ? if_null : boolean();
}

int32_t JsonNode::integer(int32_t max) const {
  if (value_->is_number_integer()) {
    // A negative value is out of range as an unsigned one, too.
    const auto value = value_->get<uint64_t>();
    if (value <= static_cast<uint64_t>(max)) return static_cast<int32_t>(value);
  }
  fail_expected(fmt::format("an integer from 0 to {}", max));
  return 0;
}

std::string JsonNode::one_of(std::span<const std::string_view> supported) const {
  const std::string text = string();
  if (std::find(supported.begin(), supported.end(), text) == supported.end())
    fail_unsupported(fmt::format("{}", fmt::join(supported, ", ")));
  return text;
}

std::vector<JsonNode> JsonNode::sequence(std::string_view list_key) const {
  if (is_null()) return {};
  const JsonNode type = at("type");
  if (*type.value_ != "Sequence") return {*this};
  allow_keys({"type", list_key});
  return at(list_key).items();
}

}  // namespace mkrt
