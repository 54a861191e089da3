// Files of a checkpoint hold chat templates and special tokens.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/base/file.h"
#include "runtime/base/json_text.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/default_tokens.h"

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

// NamedTemplate is one of several templates. `key` is where it stands.
struct NamedTemplate {
  std::string key, name, source;
};

// Returns the templates of a list of objects with a name, or of an object with a key for each name.
Result<std::vector<NamedTemplate>> named_templates(const nlohmann::json& value, const std::string& path) {
  std::vector<NamedTemplate> all;
  for (const auto& [at, item] : value.items()) {
    const std::string key = fmt::format("chat_template[{}]", at);
    const bool has_texts = item.is_object() && item.contains("name") && item.contains("template") &&
                           item["name"].is_string() && item["template"].is_string();
    if (value.is_array() && !has_texts)
      return bad_key(path, key, item, "an object with the texts name and template");
    if (value.is_object() && !item.is_string()) return bad_key(path, key, item, "text");
    all.push_back(value.is_array() ? NamedTemplate{key, item["name"], item["template"]}
                                   : NamedTemplate{key, at, item});
  }
  return all;
}

Result<ChatTemplate> parse_named(const nlohmann::json& value, const std::string& path) {
  const Result<std::vector<NamedTemplate>> all = named_templates(value, path);
  if (!all.ok()) return all.error();
  std::optional<ChatTemplate> main, with_tools;
  for (const auto& [key, name, source] : all.value()) {
    if (name != "default" && name != "tool_use") continue;
    Result<ChatTemplate> parsed = ChatTemplate::parse(source, path + ":" + key);
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
  if (!value.is_string() && !value.is_structured())
    return bad_key(path, "chat_template", value, "text, a list or an object");
  Result<ChatTemplate> parsed =
      value.is_structured()
          ? parse_named(value, path)
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

bool is_standard(const std::string& key) {
  return std::find(std::begin(kStandardTokens), std::end(kStandardTokens), key) != std::end(kStandardTokens);
}

bool is_added_token(const nlohmann::json& value) {
  if (!value.is_object() || !value.contains("content")) return false;
  const auto type = value.find("__type");
  return type != value.end() && *type == "AddedToken";
}

// SpecialTokens has texts by their names. transformers lets a text of `named` take the place of one of
// `found`.
struct SpecialTokens {
  nlohmann::ordered_json found = nlohmann::ordered_json::object();
  nlohmann::ordered_json named = nlohmann::ordered_json::object();

  nlohmann::ordered_json variables() const {
    nlohmann::ordered_json all = found;
    all.update(named);
    return all;
  }
};

// Adds the tokens of an object {name: token}. The key names it in errors.
Status add_named(const nlohmann::json& object, const std::string& path, const std::string& key,
                 SpecialTokens& tokens) {
  for (const auto& [name, value] : object.items()) {
    const Result<std::string> text = token_text(value, path, key + "." + name);
    if (!text.ok()) return text.error();
    tokens.named[name] = text.value();
  }
  return {};
}

// Adds what tokenizer_config.json has at a key of special tokens: an object names them, and tokens of a list
// have no names.
Status add_extra(const nlohmann::json& document, const std::string& path, const std::string& key,
                 SpecialTokens& tokens) {
  const auto extra = document.find(key);
  if (extra == document.end() || extra->is_null() || extra->is_array()) return {};
  if (!extra->is_object()) return bad_key(path, key, *extra, "a list or an object");
  return add_named(*extra, path, key, tokens);
}

Status read_config_tokens(const nlohmann::json& config, const std::string& path, SpecialTokens& tokens) {
  for (const auto& [key, value] : config.items()) {
    const bool has_text = value.is_string() || is_added_token(value);
    if (value.is_null()) tokens.found.erase(key);
    if (value.is_null() || (!is_standard(key) && !(key.ends_with("_token") && has_text))) continue;
    const Result<std::string> text = token_text(value, path, key);
    if (!text.ok()) return text.error();
    (is_standard(key) || value.is_object() ? tokens.found : tokens.named)[key] = text.value();
  }
  const auto extra = config.find("extra_special_tokens");
  const bool has_extra = extra != config.end() && !extra->empty();
  Status status =
      add_extra(config, path, has_extra ? "extra_special_tokens" : "additional_special_tokens", tokens);
  if (!status.ok() || !tokens.named.empty()) return status;
  return add_extra(config, path, "model_specific_special_tokens", tokens);
}

// Reads special_tokens_map.json, whose tokens take the place of those of tokenizer_config.json.
Status read_map_tokens(const nlohmann::json& map, const std::string& path, SpecialTokens& tokens) {
  for (const auto& [key, value] : map.items()) {
    if (!is_standard(key) && !key.ends_with("_token")) continue;
    tokens.found.erase(key);
    if (value.is_null()) continue;
    const Result<std::string> text = token_text(value, path, key);
    if (!text.ok()) return text.error();
    tokens.found[key] = text.value();
  }
  return add_extra(map, path, "extra_special_tokens", tokens);
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
  OptionalTemplate found = read_from_json(directory + "/tokenizer_config.json");
  if (!found.ok() || found.value()) return found;
  return read_from_json(directory + "/chat_template.json");
}

Result<nlohmann::ordered_json> read_template_variables(const std::string& directory) {
  const std::string path = directory + "/tokenizer_config.json",
                    map_path = directory + "/special_tokens_map.json";
  const Result<std::optional<nlohmann::json>> config = read_object(path);
  if (!config.ok()) return config.error();
  const Result<std::optional<nlohmann::json>> model = read_object(directory + "/config.json");
  if (!model.ok()) return model.error();
  const nlohmann::json none = nlohmann::json::object();
  Result<nlohmann::ordered_json> defaults =
      default_tokens(directory, config.value().value_or(none), model.value().value_or(none));
  if (!defaults.ok()) return defaults.error();
  SpecialTokens tokens{.found = std::move(defaults).value()};
  if (config.value()) {
    const Status status = read_config_tokens(*config.value(), path, tokens);
    if (!status.ok()) return status.error();
    if (config.value()->contains("added_tokens_decoder")) return tokens.variables();
  }
  const Result<std::optional<nlohmann::json>> map = read_object(map_path);
  if (!map.ok()) return map.error();
  if (!map.value()) return tokens.variables();
  const Status status = read_map_tokens(*map.value(), map_path, tokens);
  if (!status.ok()) return status.error();
  return tokens.variables();
}

}  // namespace mkrt
