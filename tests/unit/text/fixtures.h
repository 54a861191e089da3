// These fixtures load the tokenizers and expected values of tests/oracle/make_tokenizer_vectors.py.
#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/text/tokenizer.h"

inline std::string tokenizer_fixture(const std::string& name) {
  return std::string(MKC_SOURCE_DIR) + "/tests/oracle/tokenizer/" + name;
}

inline nlohmann::json read_json_fixture(const std::string& name) {
  std::ifstream stream(tokenizer_fixture(name));
  return nlohmann::json::parse(stream);
}

inline mkrt::Tokenizer load_fixture(const std::string& name) {
  mkrt::Result<mkrt::Tokenizer> tokenizer = mkrt::load_tokenizer(tokenizer_fixture(name));
  REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().message);
  return std::move(tokenizer).value();
}

// Returns the value, or fails the test with the error text.
template <class T>
T expect_ok(mkrt::Result<T> result) {
  REQUIRE_MESSAGE(result.ok(), result.error().message);
  return std::move(result).value();
}
