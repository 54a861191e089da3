#include "frontend/quantization.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "frontend/json.h"
#include "frontend/module_pattern.h"
#include "tests/unit/frontend/fixtures.h"

using namespace mkc;

namespace {

// Returns whether a config of compressed-tensors with these groups asks for activations of 8-bit floats.
bool asks_for_fp8(const std::string& groups) {
  const std::string text = fmt::format(
      R"({{"quantization_config": {{"quant_method": "compressed-tensors", "format": "mixed-precision",
                  "config_groups": {{{}}}}}}})",
      groups);
  const Result<Document> config = parse_json({"config.json", text});
  REQUIRE(config.ok());
  const auto found = read_quantization(config.value(), "/nonexistent");
  REQUIRE_MESSAGE(found.ok(), (found.ok() ? "" : found.error().message));
  REQUIRE(found.value());
  return found.value()->fp8_activations;
}

std::string group(const std::string& name, const std::string& format, const std::string& weights,
                  const std::string& activations) {
  return fmt::format(R"("{}": {{"format": "{}", "weights": {{{}}}, "input_activations": {}}})", name, format,
                     weights, activations);
}

// Returns the error, without its place, for a `quantization_config`.
std::string error_of(const std::string& keys) {
  const Result<Document> config = parse_json({"config.json", "{\"quantization_config\": {" + keys + "}}"});
  REQUIRE(config.ok());
  const std::string message = headline(read_quantization(config.value(), "/nonexistent"));
  return message.empty() ? "" : message.substr(message.find("error: "));
}

}  // namespace

TEST_CASE("stars of a pattern stand for any text") {
  for (const auto& [pattern, text, fits] : {std::tuple{"", "", true},
                                            {"", "a", false},
                                            {"*", "", true},
                                            {"*", "ab", true},
                                            {"a*", "ab", true},
                                            {"a*", "ba", false},
                                            {"*b", "abab", true},
                                            {"*b", "aba", false},
                                            {"a*b*c", "aXbYbc", true},
                                            {"a*b*c", "aXcYb", false},
                                            {"**a", "a", true},
                                            {"a**", "a", true},
                                            {"ab", "a", false}}) {
    CAPTURE(pattern);
    CAPTURE(text);
    CHECK(matches_glob(pattern, text) == fits);
  }
  std::string stars;
  for (int i = 0; i < 40; ++i) stars += "*a";
  CHECK(!matches_glob(stars + "b",
                      std::string(4000, 'a')));  // it would outlast the test if stars were tried again
  CHECK(matches_glob(stars, std::string(4000, 'a')));
}

TEST_CASE("rotations, sparse weights and unknown schemes of activations are refused") {
  const std::string key = "error: quantization_config.",
                    group =
                        R"("config_groups": {"a": {"weights": {"num_bits": 8, "type": "float", "strategy": )",
                    tensors = R"("quant_method": "compressed-tensors", "format": "float-quantized", )";
  const auto with = [&](const std::string& keys, const std::string& weights = "") {
    return error_of(tensors + keys + group + "\"channel\"" + weights + "}}}");
  };
  CHECK(with("").empty());
  CHECK(with(R"("transform_config": {}, "sparsity_config": {}, )").empty());
  CHECK(with(R"("transform_config": null, "sparsity_config": {"format": "dense", "ignore": []}, )").empty());
  CHECK(with(R"("transform_config": {"config_groups": {"R1": {}}}, )") ==
        key + "transform_config is a map, expected null or an empty map");
  CHECK(with(R"("sparsity_config": {"format": "sparse-24-bitmask"}, )") ==
        key + "sparsity_config.format is \"sparse-24-bitmask\", expected null or \"dense\"");
  CHECK(with("", R"(, "actorder": "weight")").empty());
  CHECK(with("", R"(, "actorder": "group")") ==
        key + "config_groups.a.weights.actorder is \"group\", expected null or \"static\" or \"weight\"");
  for (const char* good : {"\"dynamic\"", "\"static\"", "null"})
    CHECK(error_of(fmt::format(R"("quant_method": "fp8", "activation_scheme": {})", good)).empty());
  CHECK(error_of(R"("quant_method": "fp8", "activation_scheme": "bogus")") ==
        key + "activation_scheme is \"bogus\", expected null or \"dynamic\" or \"static\"");
}

TEST_CASE("rotations and sparse weights are refused under every method") {
  const std::string key = "error: quantization_config.";
  for (const char* method :
       {R"("quant_method": "fp8")", R"("quant_method": "gptq", "bits": 4)",
        R"("quant_method": "awq", "bits": 4)", R"("quant_method": "auto-round", "bits": 4)",
        R"("quant_method": "auto-round", "bits": 8, "data_type": "fp")", R"("quant_method": "mxfp4")",
        R"("quant_method": "modelopt", "quant_algo": "FP8")"}) {
    CAPTURE(method);
    const auto with = [&](const std::string& name, const std::string& value) {
      return error_of(fmt::format(R"({}, "{}": {})", method, name, value));
    };
    for (const char* name : {"transform_config", "rotation_config", "hadamard_config"}) {
      CHECK(with(name, "{}").empty());
      CHECK(with(name, "null").empty());
      CHECK(with(name, R"({"a": {"type": "hadamard"}})") ==
            key + name + " is a map, expected null or an empty map");
    }
    for (const char* good : {"{}", "null", R"({"format": "dense"})"})
      CHECK(with("sparsity_config", good).empty());
    CHECK(with("sparsity_config", R"({"format": "sparse-24-bitmask"})") ==
          key + "sparsity_config.format is \"sparse-24-bitmask\", expected null or \"dense\"");
    CHECK(with("sparsity_config", "\"2:4\"") ==
          key + "sparsity_config is \"2:4\", expected null or an empty map");
  }
}

TEST_CASE("groups of integers do not hide what groups of 8-bit floats ask of activations") {
  const std::string
      floats = R"("num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true)",
      fp8 = R"({"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true})",
      integers =
          group("a", "pack-quantized",
                R"("num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": true)",
                "null"),
      asks = group("b", "float-quantized", floats, fp8),
      silent = group("c", "float-quantized", floats, "null");
  CHECK_FALSE(asks_for_fp8(integers));
  CHECK(asks_for_fp8(asks));
  CHECK(asks_for_fp8(integers + ", " + asks));
  CHECK_FALSE(asks_for_fp8(silent));
  CHECK_FALSE(asks_for_fp8(asks + ", " + silent));
}
