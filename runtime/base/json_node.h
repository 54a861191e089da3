// A strict view of a JSON document that knows where each value stands.
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

// A value and its path. Reading a value that is missing or of another kind records a fault and returns an
// empty value, so that a reader needs no check after each step; whoever opened the document looks at the
// faults once, at the end of a section, and must not use the section if there is one. Only the first fault is
// kept.
class JsonNode {
 public:
  // value, file and status must outlive the node and all nodes got from it.
  JsonNode(const nlohmann::json& value, const std::string& file, Status& status);

  // Records `FILE: error: PATH: message`.
  void fail(std::string_view message) const;
  // Records that this value is not one of the supported ones, which are listed.
  void fail_unsupported(std::string_view supported) const;
  // Records that this value is not of the expected kind.
  void fail_expected(std::string_view expected) const;
  bool failed() const { return !status_->ok(); }

  const nlohmann::json& raw() const { return *value_; }
  bool is_null() const;

  // A member of an object: required, or null where absent. An object with a key not in `known` is a fault.
  JsonNode at(std::string_view key) const;
  JsonNode optional(std::string_view key) const;
  void allow_keys(std::initializer_list<std::string_view> known) const;

  std::vector<JsonNode> items() const;
  std::vector<std::pair<std::string, JsonNode>> members() const;
  std::string string() const;
  bool boolean() const;
  bool boolean_or(bool if_null) const;
  // An integer from 0 to max.
  int32_t integer(int32_t max) const;
  // A string out of a list, e.g. the type of a section.
  std::string one_of(std::span<const std::string_view> supported) const;
  std::string one_of(std::initializer_list<std::string_view> supported) const {
    return one_of(std::span(supported.begin(), supported.size()));
  }

  // The steps of a section: none for null, those of the list under list_key for the type Sequence, else the
  // section itself. A Sequence inside a Sequence is left to the reader of the step to refuse.
  std::vector<JsonNode> sequence(std::string_view list_key) const;

 private:
  JsonNode(const nlohmann::json& value, const JsonNode& parent, std::string path);

  const nlohmann::json* value_;
  const std::string* file_;
  Status* status_;
  std::string path_;
};

}  // namespace mkrt
