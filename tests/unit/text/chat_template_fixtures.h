// Fixtures are templates, conversations and expected texts of tests/oracle/make_chat_template_vectors.py.
#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/text/chat_template.h"

inline std::string chat_template_fixture(const std::string& name) {
  std::ifstream stream(std::string(MKC_SOURCE_DIR) + "/tests/oracle/chat_template/" + name);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

inline nlohmann::ordered_json chat_template_json(const std::string& name) {
  return nlohmann::ordered_json::parse(chat_template_fixture(name));
}

// Returns the text or the error of a template that is named t.
inline mkrt::Result<std::string> render(
    const std::string& source, const nlohmann::ordered_json& messages = nlohmann::ordered_json::array(),
    const nlohmann::ordered_json& variables = nlohmann::ordered_json::object()) {
  const mkrt::Result<mkrt::ChatTemplate> parsed = mkrt::ChatTemplate::parse(source, "t");
  if (!parsed.ok()) return parsed.error();
  return parsed.value().render(messages, variables);
}

// Returns the error of a template without the name of its file, or fails the test.
inline std::string error_of(const std::string& source,
                            const nlohmann::ordered_json& variables = nlohmann::ordered_json::object()) {
  const mkrt::Result<std::string> text = render(source, nlohmann::ordered_json::array(), variables);
  REQUIRE_MESSAGE(!text.ok(), source);
  REQUIRE(text.error().message.starts_with("t:"));
  return text.error().message.substr(2);
}
