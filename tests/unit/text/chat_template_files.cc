// These tests read templates and special tokens from the files of a checkpoint.
#include <filesystem>

#include "tests/unit/temp_dir.h"
#include "tests/unit/text/chat_template_fixtures.h"

namespace {

using mkrt::test::TempDir;
using nlohmann::ordered_json;

// Returns what the checkpoint's template makes of no messages, "none" where it has no template, or the error.
std::string rendered(const TempDir& checkpoint, const ordered_json& variables = ordered_json::object()) {
  const auto found = mkrt::read_chat_template(checkpoint.path);
  if (!found.ok()) return checkpoint.without_path(found.error().message);
  if (!found.value()) return "none";
  const auto text = found.value()->render(ordered_json::array(), variables);
  return text.ok() ? text.value() : checkpoint.without_path(text.error().message);
}

std::string variables_of(const TempDir& checkpoint) {
  const auto variables = mkrt::read_template_variables(checkpoint.path);
  return variables.ok() ? variables.value().dump() : checkpoint.without_path(variables.error().message);
}

}  // namespace

TEST_CASE("chat_template.jinja goes before tokenizer_config.json, and this before chat_template.json") {
  const TempDir checkpoint;
  CHECK(rendered(checkpoint) == "none");
  checkpoint.write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  CHECK(rendered(checkpoint) == "none");
  checkpoint.write("tokenizer_config.json", R"({"chat_template": null})");
  CHECK(rendered(checkpoint) == "none");
  checkpoint.write("chat_template.json", R"({"chat_template": "json {{ tools is none }}"})");
  CHECK(rendered(checkpoint) == "json True");
  checkpoint.write("tokenizer_config.json", R"({"chat_template": "config {{ 1 + 1 }}"})");
  CHECK(rendered(checkpoint) == "config 2");
  checkpoint.write("chat_template.jinja", "jinja {{ add_generation_prompt }}\n");
  CHECK(rendered(checkpoint) == "jinja False");
}

TEST_CASE("conversations with tools get the template that is named tool_use") {
  const TempDir checkpoint;
  checkpoint.write("tokenizer_config.json", R"({"chat_template": [
    {"name": "rag", "template": "{{ unclosed"}, {"name": "default", "template": "plain"},
    {"name": "tool_use", "template": "{{ tools | length }} tools\n{{ none.x }}{{ bad.x }}"}]})");
  CHECK(rendered(checkpoint) == "plain");
  CHECK(rendered(checkpoint, {{"tools", nullptr}}) == "plain");
  CHECK(rendered(checkpoint, {{"tools", ordered_json::array({1})}}) ==
        "tokenizer_config.json:chat_template[2]:2: error: bad is undefined");
  checkpoint.write("tokenizer_config.json",
                   R"({"chat_template": {"default": "plain", "rag": "{{ unclosed", "tool_use": "tools"}})");
  CHECK(rendered(checkpoint) == "plain");
  CHECK(rendered(checkpoint, {{"tools", ordered_json::array({1})}}) == "tools");
}

TEST_CASE("files that hold no template where one is expected are errors") {
  const TempDir checkpoint;
  const auto error_with = [&](const char* config) {
    checkpoint.write("tokenizer_config.json", config);
    return rendered(checkpoint);
  };
  CHECK(error_with("[]") == "tokenizer_config.json: error: found array, expected an object");
  CHECK(error_with("{") ==
        "tokenizer_config.json: error: not JSON: parse error at line 1, column 2: syntax error while parsing "
        "object key - unexpected end of input; expected string literal");
  CHECK(error_with(R"({"chat_template": 5})") ==
        "tokenizer_config.json: error: chat_template: found number, expected text, a list or an object");
  CHECK(error_with(R"({"chat_template": {"default": 5}})") ==
        "tokenizer_config.json: error: chat_template[default]: found number, expected text");
  CHECK(error_with(R"({"chat_template": {}})") ==
        "tokenizer_config.json: error: chat_template: no template has the name default");
  CHECK(error_with(R"({"chat_template": "a\n{{ 1 +"})") ==
        "tokenizer_config.json:chat_template:2: error: the tag has no end: expected }}");
  CHECK(error_with(R"({"chat_template": [5]})") ==
        "tokenizer_config.json: error: chat_template[0]: found number, expected an object with the texts "
        "name and template");
  CHECK(error_with(R"({"chat_template": [{"name": "default"}]})") ==
        "tokenizer_config.json: error: chat_template[0]: found object, expected an object with the texts "
        "name and template");
  CHECK(error_with(R"({"chat_template": [{"name": "other", "template": ""}]})") ==
        "tokenizer_config.json: error: chat_template: no template has the name default");
  checkpoint.write("chat_template.jinja", "\n\n{% if %}");
  CHECK(rendered(checkpoint) == "chat_template.jinja:3: error: found %}, expected an expression");
  std::filesystem::remove(checkpoint.path + "/chat_template.jinja");
  std::filesystem::create_symlink("chat_template.jinja", checkpoint.path + "/chat_template.jinja");
  CHECK(rendered(checkpoint) == "chat_template.jinja: error: cannot open: Too many levels of symbolic links");
}

TEST_CASE("special tokens are variables of the template") {
  const TempDir checkpoint;
  CHECK(variables_of(checkpoint) == "{}");
  checkpoint.write("tokenizer_config.json",
                   R"({"add_bos_token": true, "pad_token": null, "unk_token": "<unk>",
    "eos_token": {"content": "</s>", "lstrip": false}, "bos_token": "<s>"})");
  CHECK(variables_of(checkpoint) == R"({"bos_token":"<s>","eos_token":"</s>","unk_token":"<unk>"})");
  checkpoint.write("tokenizer_config.json", R"({"bos_token": 1})");
  CHECK(variables_of(checkpoint) ==
        "tokenizer_config.json: error: bos_token: found number, expected text or an object with the text "
        "content");
  checkpoint.write("tokenizer_config.json", R"({"eos_token": {"content": 1}})");
  CHECK(variables_of(checkpoint) ==
        "tokenizer_config.json: error: eos_token: found object, expected text or an object with the text "
        "content");
}

TEST_CASE("special tokens of other names are variables, too, as transformers has them") {
  const TempDir checkpoint;
  const auto variables_with = [&](const char* config) {
    checkpoint.write("tokenizer_config.json", config);
    return variables_of(checkpoint);
  };
  CHECK(variables_with(R"({"boi_token": "<b>", "eoi_token": {"__type": "AddedToken", "content": "<e>"},
    "x_token": {"content": "<x>"}, "add_bos_token": true, "n_token": null, "other": "<o>"})") ==
        R"({"eoi_token":"<e>","boi_token":"<b>"})");
  CHECK(variables_with(R"({"a_token": {"__type": 5, "content": "<a>"}, "b_token": {"__type": null, "content":
    "<b>"}})") == "{}");
  CHECK(variables_with(R"({"bos_token": "<s>", "image_token": "<i>", "extra_special_tokens":
    {"image_token": "<t>", "boi": {"__type": "AddedToken", "content": "<b>"}, "bos_token": "<u>"}})") ==
        R"({"bos_token":"<u>","image_token":"<t>","boi":"<b>"})");
  CHECK(variables_with(R"({"extra_special_tokens": ["<i>"], "additional_special_tokens": {"q": "<j>"}})") ==
        "{}");
  CHECK(variables_with(R"({"extra_special_tokens": [], "additional_special_tokens": {"q": "<j>"}})") ==
        R"({"q":"<j>"})");
  CHECK(variables_with(R"({"additional_special_tokens": ["<i>"]})") == "{}");
  CHECK(variables_with(R"({"model_specific_special_tokens": {"q": "<i>"}})") == R"({"q":"<i>"})");
  CHECK(variables_with(R"({"b_token": "<b>", "model_specific_special_tokens": {"q": "<i>"}})") ==
        R"({"b_token":"<b>"})");
  CHECK(variables_with(R"({"extra_special_tokens": {"q": 5}})") ==
        "tokenizer_config.json: error: extra_special_tokens.q: found number, expected text or an object with "
        "the text content");
  CHECK(variables_with(R"({"extra_special_tokens": "<i>"})") ==
        "tokenizer_config.json: error: extra_special_tokens: found string, expected a list or an object");
}

TEST_CASE("special_tokens_map.json goes before a tokenizer_config.json without added_tokens_decoder") {
  const TempDir checkpoint;
  checkpoint.write("special_tokens_map.json", R"({"bos_token": "<t>", "eos_token": {"content": "</t>"},
    "pad_token": null, "boi_token": "<k>", "eoi_token": {"content": "<l>"},
    "additional_special_tokens": ["<i>"], "extra_special_tokens": {"q": "<q>"}})");
  CHECK(variables_of(checkpoint) ==
        R"({"boi_token":"<k>","bos_token":"<t>","eoi_token":"<l>","eos_token":"</t>","q":"<q>"})");
  checkpoint.write("tokenizer_config.json",
                   R"({"bos_token": "<s>", "pad_token": "<p>", "boi_token": "<b>"})");
  CHECK(variables_of(checkpoint) ==
        R"({"boi_token":"<b>","bos_token":"<t>","eoi_token":"<l>","eos_token":"</t>","q":"<q>"})");
  checkpoint.write("tokenizer_config.json", R"({"bos_token": "<s>", "added_tokens_decoder": {}})");
  CHECK(variables_of(checkpoint) == R"({"bos_token":"<s>"})");
  checkpoint.write("tokenizer_config.json", "{}");
  checkpoint.write("special_tokens_map.json", R"({"bos_token": 1})");
  CHECK(variables_of(checkpoint) ==
        "special_tokens_map.json: error: bos_token: found number, expected text or an object with the text "
        "content");
}

TEST_CASE("tokens that no file names are those of the tokenizer class, as in transformers 5.24") {
  const TempDir checkpoint;
  const auto with = [&](const char* config, const char* model, const char* tokenizer = "{}") {
    checkpoint.write("tokenizer_config.json", config);
    checkpoint.write("config.json", model);
    checkpoint.write("tokenizer.json", tokenizer);
    return variables_of(checkpoint);
  };
  const std::string
      llama = R"({"bos_token":"<s>","eos_token":"</s>","unk_token":"<unk>"})",
      qwen = R"({"eos_token":"<|endoftext|>","unk_token":"<|endoftext|>","pad_token":"<|endoftext|>"})",
      gpt2 = R"({"bos_token":"<|endoftext|>","eos_token":"<|endoftext|>","unk_token":"<|endoftext|>"})",
      none = "{}";
  const char *is_llama = R"({"tokenizer_class": "LlamaTokenizer"})",
             *is_gpt2 = R"({"tokenizer_class": "GPT2TokenizerFast"})",
             *bytes = R"({"decoder": {"type": "ByteLevel"}})";
  CHECK(with(is_llama, "{}") == llama);
  CHECK(with(R"({"tokenizer_class": "LlamaTokenizerFast"})", R"({"model_type": "llama"})") == llama);
  CHECK(with("{}", R"({"tokenizer_class": "LlamaTokenizer"})") == llama);
  CHECK(with(is_llama, R"({"model_type": "qwen3"})") == llama);
  CHECK(with("{}", R"({"model_type": "llama"})") == none);
  // Tokenizers of bytes have no use for LlamaTokenizer, and models of Mistral for no class.
  CHECK(with(is_llama, R"({"model_type": "llama"})", bytes) == none);
  CHECK(with(is_llama, R"({"model_type": "mistral"})") == none);
  CHECK(with(is_gpt2, R"({"model_type": "mixtral"})") == none);
  CHECK(with(is_gpt2, R"({"model_type": "llama"})", bytes) == gpt2);
  CHECK(with(is_gpt2, R"({"model_type": "qwen3"})") == gpt2);
  for (const char* type : {"qwen2", "qwen3", "qwen3_moe"})
    CHECK(with("{}", ("{\"model_type\": \"" + std::string(type) + "\"}").c_str()) == qwen);
  CHECK(with(R"({"tokenizer_class": "Qwen2TokenizerFast"})", "{}") == qwen);
  CHECK(with(R"({"tokenizer_class": "TokenizersBackend"})", R"({"model_type": "qwen3"})") == none);
  CHECK(with(R"({"tokenizer_class": "PreTrainedTokenizerFast"})", R"({"model_type": "qwen3"})") == none);
  // Configs of Qwen2 often name a wrong class.
  CHECK(with(is_llama, R"({"model_type": "qwen2"})", bytes) == qwen);
  std::string neox = gpt2;
  neox.insert(neox.size() - 1, R"(,"pad_token":"<|padding|>")");
  CHECK(with(R"({"tokenizer_class": "GPTNeoXTokenizerFast"})", R"({"model_type": "llama"})") == neox);
  CHECK(
      with(R"({"tokenizer_class": "GemmaTokenizer"})", R"({"model_type": "llama"})") ==
      R"({"bos_token":"<bos>","eos_token":"<eos>","unk_token":"<unk>","pad_token":"<pad>","mask_token":"<mask>"})");
  // A name takes the place of a default, and null takes it away.
  CHECK(with(R"({"tokenizer_class": "LlamaTokenizer", "bos_token": "<bos>", "eos_token": null})", "{}") ==
        R"({"bos_token":"<bos>","unk_token":"<unk>"})");
  checkpoint.write("special_tokens_map.json", R"({"eos_token": "<eos>", "unk_token": null})");
  CHECK(with(R"({"tokenizer_class": "LlamaTokenizer", "eos_token": null})", "{}") ==
        R"({"bos_token":"<s>","eos_token":"<eos>"})");
  CHECK(with(R"({"tokenizer_class": "LlamaTokenizer", "added_tokens_decoder": {}})", "{}") == llama);
}
