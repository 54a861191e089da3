// JsonNode is a strict view of a JSON document that knows the path of each value.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace mkrt {

// JsonNode is a value and its path. A read of a missing value or of another kind records a fault and returns
// an empty value. A reader therefore needs no check after each read.
//
// The code that opened the document checks for faults at the end of a section and must not use a faulty
// section. The first fault is kept, and later ones are dropped.
class JsonNode {
 public:
  // The value, the file name and the status must outlive the node and all nodes made from it.
  JsonNode(const nlohmann::json& value, const std::string& file, Status& status);

  // Records `FILE: error: PATH: message`.
  void fail(std::string_view message) const;
  // Records that this value is not one of the supported ones, and lists these.
  void fail_unsupported(std::string_view supported) const;
  // Records that this value is not of the expected kind.
  void fail_expected(std::string_view expected) const;
  bool failed() const { return !status_->ok(); }

  const nlohmann::json& raw() const { return *value_; }
  bool is_null() const;

  // at() returns a member of an object; a missing key is a fault. optional() returns null for a missing key.
  // allow_keys() faults keys of an object that are not in `known`.
  JsonNode at(std::string_view key) const;
  JsonNode optional(std::string_view key) const;
  void allow_keys(std::initializer_list<std::string_view> known) const;

  std::vector<JsonNode> items() const;
  std::vector<std::pair<std::string, JsonNode>> members() const;
  std::string string() const;
  bool boolean() const;
  bool boolean_or(bool if_null) const;
  // Returns an integer from 0 to `max`.
  int32_t integer(int32_t max) const;
  // Returns a string that must be one of a list, such as the type of a section.
  std::string one_of(std::span<const std::string_view> supported) const;
  std::string one_of(std::initializer_list<std::string_view> supported) const {
    return one_of(std::span(supported.begin(), supported.size()));
  }

  // Returns the steps of a section: none for null, and the list under `list_key` for the type Sequence. Any
  // other section is its own single step. The reader of a step must refuse a Sequence inside a Sequence.
  std::vector<JsonNode> sequence(std::string_view list_key) const;

 private:
  JsonNode(const nlohmann::json& value, const JsonNode& parent, std::string path);

  const nlohmann::json* value_;
  const std::string* file_;
  Status* status_;
  std::string path_;
};

}  // namespace mkrt
