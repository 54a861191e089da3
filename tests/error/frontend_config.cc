#include <doctest/doctest.h>
#include <fmt/format.h>

#include "frontend/source.h"
#include "tests/unit/frontend/fixtures.h"

using namespace mkc;
using namespace mkc::test;

namespace {

// Returns the error for the Llama config with one place of its text changed.
std::string changed(const std::string& from, const std::string& to) {
  return headline(graph_of(edited(llama_config(), from, to)));
}

const std::string kFile = "DIR/config.json";

}  // namespace

TEST_CASE("absurd and mistyped config values are refused at their key") {
  CHECK(changed("\"num_attention_heads\": 4", "\"num_attention_heads\": 0") ==
        kFile + ":8:3: error: num_attention_heads is 0, expected at least 1");
  CHECK(changed("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3") ==
        kFile + ":8:3: error: num_attention_heads is 4, expected a multiple of num_key_value_heads 3");
  CHECK(changed("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 1099511627776") ==
        kFile + ":9:3: error: num_hidden_layers is 1099511627776, expected at most 1024");
  CHECK(changed("\"hidden_size\": 32", "\"hidden_size\": \"32\"") ==
        kFile + ":5:3: error: hidden_size is \"32\", expected an int");
  CHECK(changed("\"hidden_size\": 32", "\"hidden_size\": 33") ==
        kFile + ":5:3: error: hidden_size is 33, expected a multiple of num_attention_heads 4");
  CHECK(changed("\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": true") ==
        kFile + ":11:3: error: rms_norm_eps is true, expected a float");
  CHECK(changed("\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 1e400") ==
        kFile + ":11:23: error: number overflow parsing '1e400'");
}

// Returns the error for the Llama config with one change of its text and one of its family's file.
std::string with_family(const std::string& from, const std::string& to, const std::string& in_family,
                        const std::string& for_family) {
  const auto llama = read_source(MKC_SOURCE_DIR "/models/llama.yaml");
  REQUIRE(llama.ok());
  const TempDir dir;
  ModelOptions options;
  options.family = dir.write("f.yaml", edited(llama.value().text, in_family, for_family));
  return headline(graph_of(edited(llama_config(), from, to), options));
}

TEST_CASE("missing config keys without a default are named with the place that needs them") {
  CHECK(with_family("  \"vocab_size\": 100", "  \"x\": 0", "llama: {vocab_size: 32000, ", "llama: {") ==
        kFile + ": error: missing key \"vocab_size\", needed by DIR/f.yaml:16:19");
  CHECK(changed("\"num_hidden_layers\": 1", "\"num_hidden_layers\": null") ==
        kFile + ":9:3: error: num_hidden_layers is null, expected an int");
  CHECK(changed("\"hidden_act\": \"silu\"", "\"hidden_act\": null")
            .starts_with(kFile + ":4:3: error: hidden_act is null, the llama family supports "));
}

TEST_CASE("errors about a missing key's default say that it is one") {
  CHECK(changed("\"num_attention_heads\": 4,\n  \"num_hidden_layers\": 1,\n  \"num_key_value_heads\": 2",
                "\"head_dim\": 8,\n  \"num_key_value_heads\": 3") ==
        kFile +
            ": error: num_attention_heads is 32, expected a multiple of num_key_value_heads 3; the key is "
            "missing, and 32 is its default");
  CHECK(with_family("  \"vocab_size\": 100", "  \"x\": 0", "vocab_size: 32000", "vocab_size: 0") ==
        kFile + ": error: vocab_size is 0, expected at least 1; the key is missing, and 0 is its default");
  const auto graph = graph_of(llama_config());
  REQUIRE(graph.ok());
  const auto tensors = checkpoint_of(graph.value());
  const auto with_tensors = [&](const std::string& from, const std::string& to) {
    return headline(graph_of(edited(llama_config(), from, to), {}, tensors));
  };
  const std::string missing = "; missing in DIR/config.json, with defaults: ";
  CHECK(with_tensors("  \"vocab_size\": 100", "  \"x\": 0")
            .ends_with("has shape [100, 32], expected [32000, 32]" + missing + "vocab_size 32000"));
  CHECK(with_tensors("  \"num_hidden_layers\": 1,\n", "")
            .ends_with("missing tensor \"model.layers.1.input_layernorm.weight\" [32], needed by "
                       "models/llama.yaml:70:5" +
                       missing + "num_hidden_layers 32"));
}

TEST_CASE("a family's defaults are maps by its model types") {
  const auto defaults = [](const std::string& text) {
    return with_family("\"hidden_act\"", "\"hidden_act\"", "\nparams:", "\n  " + text + "\nparams:");
  };
  CHECK(defaults("").empty());
  CHECK(defaults("lama: {}").ends_with("error: unknown key \"lama\" in defaults, did you mean \"llama\"?"));
  CHECK(
      with_family("\"hidden_act\"", "\"hidden_act\"", "\ndefaults:\n", "\nx:\n").find("unknown key \"x\"") !=
      std::string::npos);
}

TEST_CASE("what changes the computation and is not implemented is refused") {
  CHECK(changed("\"silu\"", "\"relu\"") ==
        kFile +
            ":4:3: error: hidden_act is \"relu\", the llama family supports "
            "\"silu\" or \"swish\" or \"gelu\" or \"gelu_new\" or \"gelu_pytorch_tanh\"");
  CHECK(changed("\"hidden_act\"", "\"final_logit_softcapping\": 30.0, \"hidden_act\"") ==
        kFile +
            ":4:3: error: final_logit_softcapping is 30: the llama family does not read it, and it would "
            "change the computation");
  CHECK(changed("\"hidden_act\"", "\"final_logit_softcapping\": null, \"hidden_act\"").empty());
  CHECK(
      changed("\"hidden_act\"", "\"layer_types\": [\"sliding_attention\"], \"hidden_act\"") ==
      kFile +
          ":4:3: error: layer_types is \"sliding_attention\", the llama family supports \"full_attention\"");
  CHECK(changed("\"hidden_act\"", "\"partial_rotary_factor\": 0.5, \"hidden_act\"") ==
        kFile + ":4:3: error: partial_rotary_factor is 0.5, the llama family supports 1");
  for (const std::string map : {"rope_scaling", "rope_parameters"})
    CHECK(changed("\"hidden_act\"", "\"" + map + "\": {\"partial_rotary_factor\": 0.5}, \"hidden_act\"")
              .ends_with("error: " + map + ".partial_rotary_factor is 0.5, the llama family supports 1"));
  CHECK(changed("\"torch_dtype\": \"bfloat16\"", "\"torch_dtype\": \"float8_e4m3fn\"") ==
        kFile +
            ":13:3: error: torch_dtype is \"float8_e4m3fn\", expected \"bfloat16\", \"float16\" or "
            "\"float32\"");
}

// Returns the error for a config whose weights are quantized as `text` says.
std::string quantized(const std::string& text) {
  return changed("\"hidden_act\"", "\"quantization_config\": " + text + ", \"hidden_act\"");
}

// Returns an error from "error: " on.
std::string from_error(const std::string& text) {
  const size_t from = text.find("error: ");
  return from == std::string::npos ? text : text.substr(from);
}

// Returns the error, from "error: " on, for a format of compressed-tensors with one group.
std::string group_error(const std::string& format, const std::string& weights,
                        const std::string& activations = "null") {
  const std::string text = quantized("{\"quant_method\": \"compressed-tensors\", \"format\": \"" + format +
                                     "\", \"config_groups\": {\"a\": {\"weights\": {" + weights +
                                     "}, \"input_activations\": " + activations + "}}}");
  return from_error(text);
}

TEST_CASE("quantized weights of an unknown method or format are refused") {
  const std::string at = kFile + ":4:27: error: quantization_config.",
                    method = "\"quant_method\": ", tensors = "\"compressed-tensors\"",
                    format = ", \"format\": \"float-quantized\"";
  CHECK(quantized("{}") == kFile +
                               ":4:3: error: quantization_config.quant_method is null, expected "
                               "\"compressed-tensors\" or \"fp8\" or \"gptq\" or \"awq\" or "
                               "\"auto-round\" or \"mxfp4\" or \"modelopt\"");
  CHECK(quantized("{" + method + "\"bitsandbytes\"}")
            .starts_with(at + "quant_method is \"bitsandbytes\", expected "));
  CHECK(quantized("{\"format\": \"int-quantized\", " + method + tensors + "}") ==
        at + "format is \"int-quantized\", expected \"float-quantized\" or \"pack-quantized\" or "
             "\"nvfp4-pack-quantized\" or \"mxfp4-pack-quantized\" or \"mixed-precision\"");
  CHECK(quantized("{" + method + tensors + format + "}") ==
        kFile + ":4:3: error: quantization_config.config_groups is null, expected a map of groups");
  CHECK(quantized("{\"fmt\": \"e5m2\", " + method + "\"fp8\"}") ==
        at + "fmt is \"e5m2\", expected \"e4m3\" or null");
  CHECK(quantized("{\"weight_block_size\": [64, 128], " + method + "\"fp8\"}") ==
        at + "weight_block_size is [64, 128], expected [128, 128] or null");
  CHECK(quantized("{\"weight_block_size\": [128, 128], " + method + "\"fp8\"}").empty());
  CHECK(quantized("{" + method + "\"fp8\", \"kv_cache_scheme\": {\"num_bits\": 8, \"type\": \"float\"}}")
            .empty());
  CHECK(from_error(quantized("{" + method +
                             "\"fp8\", \"kv_cache_scheme\": {\"num_bits\": 4, \"type\": \"float\"}}")) ==
        "error: quantization_config.kv_cache_scheme.num_bits is 4, expected 8");
}

TEST_CASE("settings of GPTQ, AWQ, AutoRound and ModelOpt that no weight format is for are refused") {
  const auto error = [](const std::string& method, const std::string& keys) {
    return from_error(quantized("{" + keys + ", \"quant_method\": \"" + method + "\"}"));
  };
  const std::string key = "error: quantization_config.";
  CHECK(error("gptq", "\"bits\": 3") == key + "bits is 3, expected 4 or 8");
  CHECK(error("gptq", "\"bits\": 4, \"checkpoint_format\": \"marlin\"") ==
        key + "checkpoint_format is \"marlin\", expected \"gptq\" or \"gptq_v2\" or null");
  CHECK(error("gptq", "\"bits\": 4, \"format\": \"marlin\"") ==
        key + "format is \"marlin\", expected \"gptq\" or \"gptq_v2\" or null");
  CHECK(
      error("gptq", "\"bits\": 4, \"checkpoint_format\": \"gptq\", \"format\": \"gptq_v2\"") ==
      key +
          "format is \"gptq_v2\", but quantization_config.checkpoint_format is \"gptq\", expected the same");
  CHECK(error("awq", "\"bits\": 4, \"format\": \"gemv\"") ==
        key + "format is \"gemv\", expected \"gemm\" or \"GEMM\" or null");
  CHECK(error("awq", "\"bits\": 4, \"backend\": \"llm-awq\"") ==
        key + "backend is \"llm-awq\", expected another: codes of llm-awq are not read");
  CHECK(error("awq", "\"bits\": 8") == key + "bits is 8, expected 4");
  CHECK(error("awq", "\"bits\": 4, \"version\": \"gemv\"") ==
        key + "version is \"gemv\", expected \"gemm\" or \"GEMM\" or null");
  CHECK(error("auto-round", "\"bits\": 4, \"packing_format\": \"auto_round:gguf\"") ==
        key +
            "packing_format is \"auto_round:gguf\", expected \"auto_round:auto_gptq\" or "
            "\"auto_round:auto_awq\" or null");
  CHECK(error("modelopt", "\"quant_algo\": \"MXFP8\"") ==
        key + "quant_algo is \"MXFP8\", expected \"NVFP4\" or \"FP8\"");
  const std::string floats =
      "\"data_type\": \"fp\", \"fmt\": \"e4m3\", \"packing_format\": \"auto_round:fp8\", ";
  CHECK(error("auto-round", floats + "\"bits\": 8, \"weight_block_size\": [128, 128]").empty());
  CHECK(error("auto-round", floats + "\"bits\": 4") == key + "bits is 4, expected 8");
  CHECK(error("auto-round", "\"data_type\": \"mx_fp\", \"bits\": 4") ==
        key + "data_type is \"mx_fp\", expected \"int\" or \"fp\" or null");
  for (const char* good : {"gptq", "awq", "auto-round"}) CHECK(error(good, "\"bits\": 4").empty());
  CHECK(error("modelopt", "\"quant_algo\": \"NVFP4\"").empty());
}

TEST_CASE("hf_quant_config.json tells of quantized weights where config.json does not") {
  const test::TempDir dir;
  dir.write("config.json", test::llama_config());
  const auto error = [&](const char* algorithm) {
    dir.write("hf_quant_config.json",
              fmt::format("{{\"quantization\": {{\"quant_algo\": \"{}\"}}}}", algorithm));
    const auto request = read_request(dir.path, {});
    REQUIRE(request.ok());
    return build_op_graph(request.value(), {}).error().message;
  };
  CHECK(error("W4A8_AWQ")
            .find("hf_quant_config.json:1:19: error: quantization.quant_algo is \"W4A8_AWQ\", expected "
                  "\"NVFP4\" or \"FP8\"") != std::string::npos);
  CHECK(error("NVFP4").find("error: hf_quant_config.json without a checkpoint does not say which weights are "
                            "quantized, expected model.safetensors beside it") != std::string::npos);
}

TEST_CASE("patterns and groups of a quantized config without a checkpoint are checked") {
  const std::string key = "error: quantization_config.", gptq = "{\"quant_method\": \"gptq\", \"bits\": 4, ";
  CHECK(from_error(quantized(gptq + "\"modules_to_not_convert\": \"lm_head\"}")) ==
        key + "modules_to_not_convert is \"lm_head\", expected a list of modules");
  CHECK(from_error(quantized(gptq + "\"ignore\": [\"re:(\"]}"))
            .starts_with(key + "ignore has \"re:(\", expected a regular expression: "));
  CHECK(from_error(quantized(gptq + "\"ignore\": [\"re:((.*)*)*\\\\d\\\\d\"]}"))
            .starts_with("error: pattern \"re:((.*)*)*\\d\\d\" against module \"model.layers.0."));
  CHECK(from_error(quantized(gptq + "\"group_size\": \"a\"}")) ==
        key + "group_size is \"a\", expected a number of columns, or -1");
  for (const char* group : {"16", "24", "64"})
    CHECK(from_error(quantized(gptq + "\"group_size\": " + group + "}")) ==
          fmt::format("error: group_size is {}, expected a multiple of 32 that divides the 32 columns of "
                      "\"model.layers.0.self_attn.q_proj.weight\"",
                      group));
  CHECK(quantized(gptq + "\"group_size\": -1}").empty());
}

TEST_CASE("quantized weights of schemes that no weight format is for are refused") {
  const std::string key = "error: quantization_config.config_groups.a.", floats = "float-quantized",
                    packed = "pack-quantized",
                    good = "\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"channel\"",
                    good4 = "\"num_bits\": 4, \"type\": \"int\", \"strategy\": \"group\"";
  CHECK(group_error(floats, "\"num_bits\": 4") == key + "weights.num_bits is 4, expected 8");
  CHECK(group_error(floats, "\"num_bits\": 8, \"type\": \"int\"") ==
        key + "weights.type is \"int\", expected \"float\"");
  CHECK(group_error(floats, "\"num_bits\": 8, \"type\": \"float\", \"strategy\": \"token\"") ==
        key + "weights.strategy is \"token\", expected \"channel\" or \"tensor\" or \"block\"");
  CHECK(group_error(floats, good + ", \"block_structure\": [1, 128]") ==
        key + "weights.block_structure is [1, 128], expected [128, 128] or null");
  CHECK(group_error(floats, good + ", \"symmetric\": false") ==
        key + "weights.symmetric is false, expected true or null");
  CHECK(group_error(packed, "\"num_bits\": 3") == key + "weights.num_bits is 3, expected 4 or 8");
  CHECK(group_error(packed, good4 + ", \"symmetric\": false").empty());
  CHECK(
      group_error("nvfp4-pack-quantized", "\"num_bits\": 4, \"type\": \"float\", \"strategy\": \"group\"") ==
      key + "weights.strategy is \"group\", expected \"tensor_group\"");
  CHECK(group_error("mxfp4-pack-quantized",
                    "\"num_bits\": 4, \"type\": \"float\", \"strategy\": \"group\", \"group_size\": 16") ==
        key + "weights.group_size is 16, expected 32");
  CHECK(group_error("mixed-precision", good) ==
        key +
            "format is null, expected \"float-quantized\" or \"pack-quantized\" or "
            "\"nvfp4-pack-quantized\" or \"mxfp4-pack-quantized\"");
  CHECK(group_error(packed, good4 + ", \"actorder\": \"group\"") ==
        key + "weights.actorder is \"group\", expected null or \"static\" or \"weight\"");
  CHECK(group_error(packed, good4, "{\"num_bits\": 8}") == key + "input_activations is a map, expected null");
  for (const char* activations : {"null", "{\"dynamic\": true}", "{\"dynamic\": false}"})
    CHECK(group_error(floats, good, activations).empty());
  CHECK(group_error(packed, good4).empty());
}

TEST_CASE("rotary scaling that is unknown or incomplete is refused") {
  CHECK(changed("\"hidden_act\"", "\"rope_scaling\": {\"rope_type\": \"longrope\"}, \"hidden_act\"") ==
        kFile +
            ":4:20: error: rope_scaling.rope_type is \"longrope\", expected \"default\", \"linear\", "
            "\"dynamic\", "
            "\"llama3\" or \"yarn\"");
  CHECK(changed("\"hidden_act\"", "\"rope_scaling\": {\"type\": \"yarn\"}, \"hidden_act\"") ==
        kFile + ": error: missing key \"rope_scaling.factor\", needed by models/llama.yaml:55:15");
  CHECK(changed("\"hidden_act\"",
                "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 2, \"truncate\": 1}, \"hidden_act\"") ==
        kFile + ":4:49: error: rope_scaling.truncate is 1, expected a bool");
  CHECK(
      changed("\"hidden_act\"",
              "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"beta_fast\": 3}, \"hidden_act\"") ==
      kFile + ":4:51: error: unknown key \"beta_fast\" in rope_scaling");
  CHECK(changed("\"hidden_act\"",
                "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}, \"rope_parameters\": {\"type\": "
                "\"default\"}, "
                "\"hidden_act\"") ==
        kFile + ":4:3: error: rope_scaling differs from rope_parameters, expected one of them");
  CHECK(changed("\"hidden_act\"", "\"rope_scaling\": {\"type\": \"linear\"}, \"hidden_act\"") ==
        kFile + ": error: missing key \"rope_scaling.factor\", needed by models/llama.yaml:55:15");
  CHECK(
      changed("\"hidden_act\"", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}, \"hidden_act\"") ==
      kFile + ":4:38: error: rope_scaling.factor is 0, expected more than 0");
  CHECK(changed("\"hidden_act\"", "\"rope_scaling\": {\"attention_factor\": 2}, \"hidden_act\"") ==
        kFile + ":4:20: error: unknown key \"attention_factor\" in rope_scaling");
}

TEST_CASE("models of no known family are refused") {
  CHECK(changed("\"LlamaForCausalLM\"", "\"FooForCausalLM\"") ==
        kFile +
            ":2:20: error: architectures names \"FooForCausalLM\", known are GptOssForCausalLM, "
            "LlamaForCausalLM, "
            "SeedOssForCausalLM, "
            "MistralForCausalLM, MixtralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, "
            "Qwen3MoeForCausalLM");
  CHECK(changed("\"model_type\": \"llama\"", "\"model_type\": \"granite\"") ==
        kFile + ":3:3: error: model_type is \"granite\", but LlamaForCausalLM is of the llama family");
  CHECK(headline(graph_of("{}")) == kFile + ": error: missing keys \"architectures\" and \"model_type\"");
}

TEST_CASE("malformed config files are refused at the place") {
  CHECK(changed("\"vocab_size\": 100", "\"hidden_size\": 100") ==
        kFile + ":14:3: error: key \"hidden_size\" is given twice");
  CHECK(headline(graph_of("{\"a\": " + std::string(40, '['))) ==
        kFile + ":1:38: error: nested deeper than 32 levels");
  CHECK(headline(graph_of("{\"a\": \"\xff\"}")) == kFile + ":1:8: error: byte 0xff is not valid UTF-8");
  CHECK(headline(graph_of("{\n  \"a\" 1}")).starts_with(kFile + ":2:7: error: "));
  std::string many = "{\"a\": [0";
  for (uint32_t i = 0; i < kMaxNodes; ++i) many += ", 0";
  CHECK(headline(graph_of(many + "]}")).ends_with("error: more than 32768 values"));
  CHECK(headline(graph_of(std::string(2 << 20, ' '))) ==
        kFile + ": error: has 2097152 bytes, at most 1048576 are read");
  CHECK(headline(graph_of(std::string(1 << 20, ' '))).find("bytes") == std::string::npos);
  CHECK(headline(read_request("/nonexistent")) ==
        "/nonexistent: error: cannot be read: No such file or directory");
}

TEST_CASE("text is well-formed UTF-8, and nothing else") {
  const auto accepted = [](const std::string& bytes) { return check_text({"f", "a" + bytes + "b"}).ok(); };
  // The list has the first and last characters of 1 to 4 bytes, and those around the surrogates.
  for (const char* bytes :
       {"", "\x20", "\x7E", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "\t", "\n", "\r"})
    CHECK_MESSAGE(accepted(bytes), bytes);
  // The list has overlong forms, surrogates, numbers beyond U+10FFFF, misplaced bytes and control characters.
  for (const char* bytes : {"\x80",
                            "\xBF",
                            "\xC0\x80",
                            "\xC1\xBF",
                            "\xC2",
                            "\xC2\x7F",
                            "\xC2\xC0",
                            "\xE0\x80\x80",
                            "\xE0\x9F\xBF",
                            "\xE1\x80",
                            "\xE1\x41\x80",
                            "\xF1\x41\x80\x80",
                            "\xED\xA0\x80",
                            "\xED\xBF\xBF",
                            "\xF0\x80\x80\x80",
                            "\xF0\x8F\xBF\xBF",
                            "\xF1\x80\x80",
                            "\xF4\x90\x80\x80",
                            "\xF5\x80\x80\x80",
                            "\xFF",
                            "\x01",
                            "\x1F",
                            "\x7F"})
    CHECK_FALSE_MESSAGE(accepted(bytes), bytes);
  CHECK_FALSE(check_text({"f", "a\xC2"}).ok());
  // The error names the first byte of a faulty sequence.
  CHECK(check_text({"f", "a\xED\xA0\x80"}).error().message == "f:1:2: error: byte 0xed is not valid UTF-8");
  CHECK(check_text({"f", "a\xE0\x80\x80"}).error().message == "f:1:2: error: byte 0xe0 is not valid UTF-8");
  CHECK(check_text({"f", "a\xF4\x90\x80\x80"}).error().message ==
        "f:1:2: error: byte 0xf4 is not valid UTF-8");
  CHECK(check_text({"f", "a\xE1\x80"}).error().message == "f:1:2: error: byte 0xe1 is not valid UTF-8");
  CHECK_FALSE(check_text({"f", std::string(1, '\0')}).ok());
  CHECK(check_text({"f", "ab\n\xC3\xA9\x01"}).error().message ==
        "f:2:3: error: byte 0x01 is a control character, expected text");
}

TEST_CASE("an error shows the source line with a caret under the key") {
  const auto result = graph_of(edited(llama_config(), "\"vocab_size\": 100", "\"vocab_size\": -1"));
  REQUIRE(!result.ok());
  const std::string& message = result.error().message;
  CHECK(message.find("\n  \"vocab_size\": -1\n  ^") != std::string::npos);
}
