// Files of a checkpoint hold chat templates and special tokens.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/base/file.h"
#include "runtime/base/json_text.h"
#include "runtime/text/chat_template.h"

namespace mkrt {
namespace {

using OptionalTemplate = Result<std::optional<ChatTemplate>>;

constexpr size_t kMaxFileBytes = size_t{64} << 20;

// Returns the members of a JSON file that is an object, or nothing where the file does not exist.
Result<std::optional<nlohmann::json>> read_object(const std::string& path) {
  if (is_absent(path)) return std::optional<nlohmann::json>();
  const Result<std::string> text = read_text(path, kMaxFileBytes);
  if (!text.ok()) return text.error();
  Result<nlohmann::json> document = parse_json_text(text.value(), path);
  if (!document.ok()) return document.error();
  if (!document.value().is_object())
    return Error{fmt::format("{}: error: found {}, expected an object", path, document.value().type_name())};
  return std::optional(std::move(document).value());
}

Error bad_key(const std::string& path, const std::string& key, const nlohmann::json& found,
              const char* expected) {
  return {fmt::format("{}: error: {}: found {}, expected {}", path, key, found.type_name(), expected)};
}

Result<ChatTemplate> parse_named(const nlohmann::json& list, const std::string& path) {
  std::optional<ChatTemplate> main, with_tools;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string key = fmt::format("chat_template[{}]", i);
    if (!list[i].is_object() || !list[i].contains("name") || !list[i].contains("template") ||
        !list[i]["name"].is_string() || !list[i]["template"].is_string())
      return bad_key(path, key, list[i], "an object with the texts name and template");
    const std::string& name = list[i]["name"].get_ref<const std::string&>();
    if (name != "default" && name != "tool_use") continue;
    Result<ChatTemplate> parsed =
        ChatTemplate::parse(list[i]["template"].get_ref<const std::string&>(), path + ":" + key);
    if (!parsed.ok()) return parsed.error();
    (name == "default" ? main : with_tools) = std::move(parsed).value();
  }
  if (!main) return Error{fmt::format("{}: error: chat_template: no template has the name default", path)};
  if (with_tools) main->set_tool_template(*with_tools);
  return *main;
}

OptionalTemplate read_from_json(const std::string& path) {
  const Result<std::optional<nlohmann::json>> document = read_object(path);
  if (!document.ok()) return document.error();
  if (!document.value() || !document.value()->contains("chat_template")) return std::optional<ChatTemplate>();
  const nlohmann::json& value = (*document.value())["chat_template"];
  if (value.is_null()) return std::optional<ChatTemplate>();
  if (!value.is_string() && !value.is_array()) return bad_key(path, "chat_template", value, "text or a list");
  Result<ChatTemplate> parsed =
      value.is_array() ? parse_named(value, path)
                       : ChatTemplate::parse(value.get_ref<const std::string&>(), path + ":chat_template");
  if (!parsed.ok()) return parsed.error();
  return std::optional(std::move(parsed).value());
}

// Returns the text of a special token: of a string, or of an object that describes the token.
Result<std::string> token_text(const nlohmann::json& value, const std::string& path, const std::string& key) {
  const bool is_object = value.is_object() && value.contains("content");
  const nlohmann::json& content = is_object ? value["content"] : value;
  if (!content.is_string()) return bad_key(path, key, value, "text or an object with the text content");
  return content.get<std::string>();
}

}  // namespace

OptionalTemplate read_chat_template(const std::string& directory) {
  const std::string path = directory + "/chat_template.jinja";
  if (!is_absent(path)) {
    const Result<std::string> source = read_text(path, kMaxFileBytes);
    if (!source.ok()) return source.error();
    Result<ChatTemplate> parsed = ChatTemplate::parse(source.value(), path);
    if (!parsed.ok()) return parsed.error();
    return std::optional(std::move(parsed).value());
  }
  OptionalTemplate found = read_from_json(directory + "/chat_template.json");
  if (!found.ok() || found.value()) return found;
  return read_from_json(directory + "/tokenizer_config.json");
}

Result<nlohmann::ordered_json> read_template_variables(const std::string& directory) {
  constexpr const char* kTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token"};
  const std::string path = directory + "/tokenizer_config.json";
  const Result<std::optional<nlohmann::json>> document = read_object(path);
  if (!document.ok()) return document.error();
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  if (!document.value()) return variables;
  for (const std::string key : kTokens) {
    const auto found = document.value()->find(key);
    if (found == document.value()->end() || found->is_null()) continue;
    const Result<std::string> text = token_text(*found, path, key);
    if (!text.ok()) return text.error();
    variables[key] = text.value();
  }
  return variables;
}

}  // namespace mkrt
