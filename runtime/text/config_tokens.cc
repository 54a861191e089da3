#include "runtime/text/config_tokens.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/base/file.h"
#include "runtime/base/json_text.h"

namespace mkrt {
namespace {

using nlohmann::json;

constexpr size_t kMaxConfigBytes = size_t{64} << 20;
constexpr const char* kNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

Result<json> read_optional_object(const std::string& path) {
  if (is_absent(path)) return json::object();
  const Result<std::string> text = read_text(path, kMaxConfigBytes);
  if (!text.ok()) return text.error();
  Result<json> document = parse_json_text(text.value(), path);
  if (!document.ok()) return document.error();
  return document.value().is_object() ? std::move(document).value() : json::object();
}

json member(const json& object, const std::string& key) {
  const auto found = object.find(key);
  return found == object.end() ? json() : *found;
}

// Returns an item of added_tokens without its id, or null for a value that is no token.
json described(const json& value, bool special) {
  const json content = value.is_object() ? member(value, "content") : value;
  if (!content.is_string() || content.get_ref<const std::string&>().empty()) return {};
  json token{{"content", content}};
  const auto flag = [&](const char* name, bool otherwise) {
    const json given = value.is_object() ? member(value, name) : json();
    token[name] = given.is_boolean() ? given.get<bool>() : otherwise;
  };
  for (const char* name : {"single_word", "lstrip", "rstrip"}) flag(name, false);
  flag("special", special);
  flag("normalized", !token["special"].get<bool>());
  if (special) token["special"] = true;
  return token;
}

bool is_id(const json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= INT32_MAX;
}

// AddedList is the list added_tokens of a document, whose tokens are found by their contents.
class AddedList {
 public:
  AddedList(json& list, const json& vocabulary) : list_(list), vocabulary_(vocabulary) {
    next_ = static_cast<int64_t>(vocabulary.size());
    for (size_t i = 0; i < list.size(); ++i) {
      const json content = list[i].is_object() ? member(list[i], "content") : json();
      if (content.is_string()) places_.emplace(content.get<std::string>(), i);
      const json id = list[i].is_object() ? member(list[i], "id") : json();
      if (is_id(id)) next_ = std::max(next_, id.get<int64_t>() + 1);
    }
  }

  // Adds a token. The flags of a token that is there stay, unless `replaces`.
  void add(json token, bool replaces) {
    if (token.is_null()) return;
    const auto& content = token["content"].get_ref<const std::string&>();
    const auto [found, is_new] = places_.emplace(content, list_.size());
    if (is_new) {
      const json id = member(vocabulary_, content);
      token["id"] = is_id(id) ? id.get<int64_t>() : next_++;
      list_.push_back(std::move(token));
    } else if (replaces) {
      list_[found->second].update(token);
    }
  }

 private:
  json& list_;
  const json& vocabulary_;
  int64_t next_ = 0;  // id of a token that is not in the vocabulary
  std::map<std::string, size_t> places_;
};

void add_decoder(const json& decoder, AddedList& added) {
  std::map<int64_t, const json*> by_id;
  for (const auto& [key, value] : decoder.items()) {
    int64_t id = 0;
    const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (fault == std::errc() && end == key.data() + key.size()) by_id[id] = &value;
  }
  for (const auto& [id, value] : by_id) added.add(described(*value, false), true);
}

// Adds the tokens of a list, or the values of an object.
void add_extra_tokens(const json& extra, AddedList& added) {
  if (!extra.is_structured()) return;
  for (const json& value : extra) added.add(described(value, true), false);
}

}  // namespace

Status add_config_tokens(json& tokenizer, const std::string& directory) {
  const Result<json> config = read_optional_object(directory + "/tokenizer_config.json");
  if (!config.ok()) return config.error();
  const json decoder = member(config.value(), "added_tokens_decoder");
  json map = json::object();
  if (decoder.is_null()) {
    Result<json> read = read_optional_object(directory + "/special_tokens_map.json");
    if (!read.ok()) return read.error();
    map = std::move(read).value();
  }
  const json::json_pointer list("/added_tokens"), vocabulary("/model/vocab");
  if (!tokenizer.is_object() || !tokenizer.contains(list) || !tokenizer[list].is_array() ||
      !tokenizer.contains(vocabulary) || !tokenizer[vocabulary].is_object())
    return {};
  AddedList added(tokenizer[list], tokenizer[vocabulary]);
  if (decoder.is_object()) add_decoder(decoder, added);
  for (const char* name : kNames)
    added.add(described(map.contains(name) ? map[name] : member(config.value(), name), true), false);
  const json extra = member(config.value(), "extra_special_tokens");
  add_extra_tokens(extra, added);
  if (extra.is_object() || extra.empty())
    add_extra_tokens(member(config.value(), "additional_special_tokens"), added);
  return {};
}

}  // namespace mkrt
