#include "frontend/quantization.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "frontend/json.h"

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

}  // namespace

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
