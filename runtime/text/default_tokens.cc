#include "runtime/text/default_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/base/file.h"

namespace mkrt {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxTokenizerBytes = size_t{1} << 30;
constexpr std::string_view kLlama = "LlamaTokenizer", kQwen2 = "Qwen2Tokenizer",
                           kGeneric = "TokenizersBackend";

// ModelClass is the tokenizer class that transformers registers for a model type.
struct ModelClass {
  std::string_view model_type;
  std::string_view tokenizer;
  bool forced = false;  // the registered class takes the place of the one that the checkpoint names
};

// Llama, gpt-oss and Seed-OSS have no registered class.
constexpr ModelClass kModelClasses[] = {
    {"mistral", kGeneric}, {"mixtral", kGeneric}, {"qwen2", kQwen2, true},
    {"qwen2_moe", kQwen2}, {"qwen3", kQwen2},     {"qwen3_moe", kQwen2},
};

std::string name_at(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// Tells whether tokenizer.json has the step ByteLevel, which LlamaTokenizer does not have.
Result<bool> has_byte_level(const std::string& directory) {
  const std::string path = directory + "/tokenizer.json";
  if (is_absent(path)) return false;
  const Result<std::string> text = read_text(path, kMaxTokenizerBytes);
  if (!text.ok()) return text.error();
  return text.value().find("\"ByteLevel\"") != std::string::npos;
}

// Returns the class that AutoTokenizer takes, or "" for one without defaults.
Result<std::string> tokenizer_class(const std::string& directory, const nlohmann::json& tokenizer_config,
                                    const nlohmann::json& config) {
  std::string named = name_at(tokenizer_config, "tokenizer_class");
  if (named.empty()) named = name_at(config, "tokenizer_class");
  if (named.ends_with("Fast")) named.resize(named.size() - 4);
  const std::string model_type = name_at(config, "model_type");
  const auto* of_model = std::ranges::find(kModelClasses, model_type, &ModelClass::model_type);
  if (of_model == std::end(kModelClasses)) of_model = nullptr;
  if (of_model && (named.empty() || of_model->forced || of_model->tokenizer == kGeneric))
    return std::string(of_model->tokenizer);
  if (named != kLlama) return named;
  const Result<bool> byte_level = has_byte_level(directory);
  if (!byte_level.ok()) return byte_level.error();
  return byte_level.value() ? "" : named;
}

}  // namespace

Result<ordered_json> default_tokens(const std::string& directory, const nlohmann::json& tokenizer_config,
                                    const nlohmann::json& config) {
  const Result<std::string> name = tokenizer_class(directory, tokenizer_config, config);
  if (!name.ok()) return name.error();
  constexpr const char *kBos = "bos_token", *kEos = "eos_token", *kUnk = "unk_token", *kPad = "pad_token",
                       *kEnd = "<|endoftext|>";
  if (name.value() == kLlama) return ordered_json{{kBos, "<s>"}, {kEos, "</s>"}, {kUnk, "<unk>"}};
  if (name.value() == kQwen2) return ordered_json{{kEos, kEnd}, {kUnk, kEnd}, {kPad, kEnd}};
  if (name.value() == "GPT2Tokenizer") return ordered_json{{kBos, kEnd}, {kEos, kEnd}, {kUnk, kEnd}};
  if (name.value() == "GPTNeoXTokenizer")
    return ordered_json{{kBos, kEnd}, {kEos, kEnd}, {kUnk, kEnd}, {kPad, "<|padding|>"}};
  if (name.value() == "GemmaTokenizer")
    return ordered_json{
        {kBos, "<bos>"}, {kEos, "<eos>"}, {kUnk, "<unk>"}, {kPad, "<pad>"}, {"mask_token", "<mask>"}};
  if (name.value() == "CodeLlamaTokenizer")
    return ordered_json{{kBos, "<s>"},
                        {kEos, "</s>"},
                        {kUnk, "<unk>"},
                        {"prefix_token", "▁<PRE>"},
                        {"middle_token", "▁<MID>"},
                        {"suffix_token", "▁<SUF>"},
                        {"eot_token", "▁<EOT>"},
                        {"fill_token", "<FILL_ME>"}};
  return ordered_json::object();
}

}  // namespace mkrt
