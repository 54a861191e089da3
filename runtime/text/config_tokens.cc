#include "runtime/text/config_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/file.h"
#include "runtime/base/json_text.h"
#include "runtime/text/default_tokens.h"

namespace mkrt {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMaxConfigBytes = size_t{64} << 20;

Result<ordered_json> read_optional_object(const std::string& path) {
  if (is_absent(path)) return ordered_json::object();
  const Result<std::string> text = read_text(path, kMaxConfigBytes);
  if (!text.ok()) return text.error();
  Result<ordered_json> document = parse_ordered_json_text(text.value(), path);
  if (!document.ok()) return document.error();
  return document.value().is_object() ? std::move(document).value() : ordered_json::object();
}

// Returns a member of a value, or null where the value has none.
template <class Json>
const Json* member(const Json& value, const std::string& key) {
  if (!value.is_object()) return nullptr;
  const auto found = value.find(key);
  return found == value.end() ? nullptr : &*found;
}

// Returns a token's text, or "" for a value that is no token.
template <class Json>
std::string content_of(const Json& value) {
  const Json* content = value.is_object() ? member(value, "content") : &value;
  return content && content->is_string() ? content->template get<std::string>() : "";
}

template <class Json>
bool flag_of(const Json& value, const char* name, bool otherwise) {
  const Json* flag = member(value, name);
  return flag && flag->is_boolean() ? flag->template get<bool>() : otherwise;
}

// Returns an id, or -1 for a value that is none.
template <class Json>
int64_t id_of(const Json* value) {
  const bool is_id = value && value->is_number_unsigned() && value->template get<uint64_t>() <= INT32_MAX;
  return is_id ? value->template get<int64_t>() : -1;
}

// AddedList is the list added_tokens of a document, whose tokens are found by their contents.
class AddedList {
 public:
  AddedList(json& list, const json& vocabulary, int64_t ids)
      : list_(list), vocabulary_(vocabulary), ids_(ids), next_(static_cast<int64_t>(vocabulary.size())) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (const std::string content = content_of(list[i]); list[i].is_object() && !content.empty())
        places_.emplace(content, i);
      next_ = std::max(next_, id_of(member(list[i], "id")) + 1);
    }
  }

  // Adds a token that is not there.
  void add(const ordered_json& value, bool special) {
    const std::string content = content_of(value);
    if (content.empty() || places_.contains(content)) return;
    const int64_t in_vocabulary = id_of(member(vocabulary_, content));
    const int64_t id = in_vocabulary >= 0 ? in_vocabulary : free_id();
    if (id >= ids_) return;
    places_.emplace(content, list_.size());
    list_.push_back({{"id", id}, {"content", content}, {"special", false}});
    set_flags(list_.back(), value, special);
  }
  // Adds a token, or gives the one that is there its flags.
  void add_or_change(const ordered_json& value) {
    const auto found = places_.find(content_of(value));
    if (found == places_.end()) return add(value, flag_of(value, "special", false));
    set_flags(list_[found->second], value, flag_of(value, "special", false));
  }
  // Adds a token, or makes the one that is there special.
  void add_special(const ordered_json& value) {
    const auto found = places_.find(content_of(value));
    if (found == places_.end()) return add(value, true);
    list_[found->second]["special"] = true;
  }

 private:
  // A special token stays one.
  static void set_flags(json& token, const ordered_json& value, bool special) {
    for (const char* name : {"single_word", "lstrip", "rstrip"}) token[name] = flag_of(value, name, false);
    token["normalized"] = flag_of(value, "normalized", !special);
    token["special"] = special || flag_of(token, "special", false);
  }
  // Returns the id behind the last one. A vocabulary with holes may have that id, too.
  int64_t free_id() {
    if (taken_.empty())
      for (const json& id : vocabulary_) taken_.insert(id_of(&id));
    while (taken_.contains(next_)) ++next_;
    return next_++;
  }

  json& list_;
  const json& vocabulary_;
  int64_t ids_ = 0;          // of the model
  int64_t next_ = 0;         // id of a token that is not in the vocabulary
  std::set<int64_t> taken_;  // by the vocabulary; empty until it is needed
  std::map<std::string, size_t> places_;
};

void add_decoder(const ordered_json& decoder, AddedList& added) {
  std::map<int64_t, const ordered_json*> by_id;
  for (const auto& [key, value] : decoder.items()) {
    int64_t id = 0;
    const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (fault == std::errc() && end == key.data() + key.size()) by_id[id] = &value;
  }
  for (const auto& [id, value] : by_id) added.add_or_change(*value);
}

// Adds the tokens of a list, whose objects say whether they are special.
void add_unnamed(const ordered_json* extra, AddedList& added) {
  if (!extra || !extra->is_array()) return;
  for (const ordered_json& value : *extra)
    added.add(value, value.is_string() || flag_of(value, "special", false));
}

bool names_token(const std::string& key, const ordered_json& value) {
  if (!key.ends_with("_token") || std::ranges::find(kStandardTokens, key) != std::end(kStandardTokens))
    return false;
  const ordered_json* type = member(value, "__type");
  return value.is_string() || (type && *type == "AddedToken");
}

// SpecialFiles are tokenizer_config.json and special_tokens_map.json, whose tokens go before the config's.
struct SpecialFiles {
  ordered_json config, map = ordered_json::object();

  void add_to(AddedList& added) const {
    for (const char* name : kStandardTokens)
      if (const ordered_json* value = member(map, name) ? member(map, name) : member(config, name))
        added.add_special(*value);
    for (const ordered_json* file : {&config, &map})
      for (const auto& [key, value] : file->items())
        if (names_token(key, value) && (file == &map || !member(map, key))) added.add(value, true);
    const ordered_json *of_config = member(config, "extra_special_tokens"),
                       *of_map = member(map, "extra_special_tokens");
    for (const ordered_json* extra : {of_config, of_map})
      if (extra && extra->is_object())
        for (const ordered_json& value : *extra) added.add(value, true);
    add_unnamed(of_config, added);
    add_unnamed(of_map, added);
    for (const ordered_json* file : {&config, &map}) {
      const ordered_json* extra = member(*file, "extra_special_tokens");
      if (!extra || extra->is_object() || extra->empty())
        add_unnamed(member(*file, "additional_special_tokens"), added);
    }
  }
};

}  // namespace

Result<bool> add_config_tokens(json& tokenizer, const std::string& directory) {
  const std::string path = directory + "/tokenizer_config.json";
  Result<ordered_json> config = read_optional_object(path);
  if (!config.ok()) return config.error();
  const ordered_json* split = member(config.value(), "split_special_tokens");
  if (split && !split->is_boolean())
    return Error{fmt::format("{}: error: split_special_tokens: found {}, expected true or false", path,
                             split->type_name())};
  const bool splits = split && split->get<bool>();
  SpecialFiles files{std::move(config).value()};
  const ordered_json* decoder = member(files.config, "added_tokens_decoder");
  if (!decoder) {
    Result<ordered_json> map = read_optional_object(directory + "/special_tokens_map.json");
    if (!map.ok()) return map.error();
    files.map = std::move(map).value();
  }
  const Result<ordered_json> model = read_optional_object(directory + "/config.json");
  if (!model.ok()) return model.error();
  const int64_t ids = id_of(member(model.value(), "vocab_size"));
  const json *list = member(tokenizer, "added_tokens"), *bpe = member(tokenizer, "model"),
             *vocabulary = bpe ? member(*bpe, "vocab") : nullptr;
  if (!list || !list->is_array() || !vocabulary || !vocabulary->is_object()) return splits;
  AddedList added(tokenizer["added_tokens"], *vocabulary, ids < 0 ? INT32_MAX : ids);
  if (decoder && decoder->is_object()) add_decoder(*decoder, added);
  files.add_to(added);
  return splits;
}

}  // namespace mkrt
