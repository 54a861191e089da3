#include "frontend/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "frontend/json.h"
#include "frontend/source.h"
#include "frontend/token_id.h"

namespace mkc {
namespace {

using Kind = Node::Kind;

// Returns the ids of a key: null or missing (no id), one id, or a list.
Result<std::vector<int32_t>> token_ids(const Document& document, std::string_view key) {
  std::vector<int32_t> ids;
  const Node* node = find(document.root, key);
  if (!node || node->is(Kind::kNull)) return ids;
  const std::vector<Node> items = node->is(Kind::kList) ? node->items : std::vector<Node>{*node};
  for (const Node& item : items) {
    if (!item.is(Kind::kInt) || item.integer < 0 || item.integer > INT32_MAX)
      return document.error(node->place, fmt::format("{} has {}, expected token ids", key, describe(item)));
    ids.push_back(static_cast<int32_t>(item.integer));
  }
  return ids;
}

void add_once(std::vector<int32_t>& ids, const std::vector<int32_t>& more) {
  for (const int32_t id : more)
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

// Returns the text of a token: a string, or the `content` of a map. Returns "" for anything else.
std::string token_text(const Node* node) {
  if (node && node->is(Kind::kMap)) node = find(*node, "content");
  return node && node->is(Kind::kString) ? node->string : "";
}

// Returns the id of a token that tokenizer_config.json's added_tokens_decoder has. Returns nothing for
// others.
std::optional<int32_t> decoded_id(const Node* added, const std::string& text) {
  for (size_t i = 0; added && i < added->keys.size(); ++i) {
    const std::string& key = added->keys[i];
    int32_t id = -1;
    const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (token_text(&added->items[i]) == text && fault == std::errc() && end == key.data() + key.size() &&
        id >= 0)
      return id;
  }
  return {};
}

// Returns the id of the tokenizer's end token. Returns no id if no file has it. A special_tokens_map.json
// goes before a tokenizer_config.json without added_tokens_decoder. transformers 5 writes neither of these
// two.
Result<std::vector<int32_t>> end_of_turn(const std::string& directory) {
  MKC_TRY(config, read_optional_json(directory + "/tokenizer_config.json"));
  const Node* added = config ? find(config->root, "added_tokens_decoder") : nullptr;
  std::string text = config ? token_text(find(config->root, "eos_token")) : "";
  if (!added) {
    MKC_TRY(map, read_optional_json(directory + "/special_tokens_map.json"));
    if (const Node* of_map = map ? find(map->root, "eos_token") : nullptr) text = token_text(of_map);
  }
  if (text.empty()) return std::vector<int32_t>{};
  std::optional<int32_t> id = token_id(directory + "/tokenizer.json", text);
  if (!id) id = decoded_id(added, text);
  return id ? std::vector<int32_t>{*id} : std::vector<int32_t>{};
}

// Tells whether a value of a key that is not read leaves the tokens unchanged: nothing, false, an empty list
// or map, or a number that is `neutral`.
bool changes_nothing(const Node& value, double neutral) {
  if (value.is(Kind::kList) || value.is(Kind::kMap)) return value.items.empty();
  if (value.is_number()) return value.number() == neutral;
  return value.is(Kind::kNull) || value == bool_node(false);
}

// Returns the keys of the file that change tokens in transformers and are not read.
std::vector<std::string> unread_settings(const Document& document, bool samples) {
  struct Setting {
    const char* key;
    double neutral;
    bool of_samples = false;  // greedy tokens do not depend on it
  };
  static constexpr Setting kSettings[] = {
      {"bad_words_ids", 0},
      {"begin_suppress_tokens", 0},
      {"encoder_no_repeat_ngram_size", 0},
      {"encoder_repetition_penalty", 1},
      {"epsilon_cutoff", 0, true},
      {"eta_cutoff", 0, true},
      {"exponential_decay_length_penalty", 0},
      {"forced_bos_token_id", -1},
      {"forced_eos_token_id", -1},
      {"guidance_scale", 1},
      {"min_length", 0},
      {"min_new_tokens", 0},
      {"no_repeat_ngram_size", 0},
      {"num_beams", 1},
      {"sequence_bias", 0},
      {"stop_strings", 0},
      {"suppress_tokens", 0},
      {"token_healing", 0},
      {"top_h", 1, true},
      {"typical_p", 1, true},
      {"watermarking_config", 0},
  };
  std::vector<std::string> keys;
  for (const Setting& setting : kSettings) {
    const Node* value = find(document.root, setting.key);
    if (value && !changes_nothing(*value, setting.neutral) && (samples || !setting.of_samples))
      keys.emplace_back(setting.key);
  }
  return keys;
}

struct NumberBounds {
  double min, max;
  bool above_min = false;
};

// Returns the number of a key, or nothing for a key that is missing or null.
Result<std::optional<float>> number(const Document& document, const char* key, const NumberBounds& bounds) {
  const Node* node = find(document.root, key);
  if (!node || node->is(Kind::kNull)) return std::optional<float>();
  const double value = node->is_number() ? node->number() : bounds.min - 1;
  const bool within =
      value >= bounds.min && value <= bounds.max && !(bounds.above_min && value == bounds.min);
  if (within) return std::optional(static_cast<float>(value));
  const std::string expected = bounds.above_min
                                   ? fmt::format("more than {}, at most {}", bounds.min, bounds.max)
                                   : fmt::format("{} to {}", bounds.min, bounds.max);
  return document.error(node->place, fmt::format("{} is {}, expected {}", key, describe(*node), expected));
}

Status read_sampling(const Document& document, GenerationDefaults& to) {
  const Node* sample = find(document.root, "do_sample");
  if (sample && !sample->is(Kind::kBool) && !sample->is(Kind::kNull))
    return document.error(sample->place, fmt::format("do_sample is {}, expected a bool", describe(*sample)));
  MKC_TRY(penalty, number(document, "repetition_penalty", {0.001, 1000}));
  to.repetition_penalty = penalty;
  if (!sample || !sample->is(Kind::kBool) || !sample->boolean) return {};
  MKC_TRY(temperature, number(document, "temperature", {0, 1e6}));
  MKC_TRY(top_k, number(document, "top_k", {0, 1 << 20}));
  MKC_TRY(top_p, number(document, "top_p", {0, 1, true}));
  MKC_TRY(min_p, number(document, "min_p", {0, 1}));
  constexpr uint32_t kDefaultTopK = 50;  // default of transformers if the file has no top_k
  to.temperature = temperature.value_or(1);
  to.top_k = top_k ? static_cast<uint32_t>(*top_k) : kDefaultTopK;
  to.top_p = top_p;
  to.min_p = min_p;
  return {};
}

}  // namespace

Result<GenerationDefaults> read_generation(const std::string& directory, const Document& config) {
  GenerationDefaults defaults;
  MKC_TRY(generation, read_optional_json(directory + "/generation_config.json"));
  if (generation) {
    MKC_TRY(ids, token_ids(*generation, "eos_token_id"));
    add_once(defaults.end_ids, ids);
  }
  const Document& settings = generation ? *generation : config;
  MKC_TRY_STATUS(read_sampling(settings, defaults));
  defaults.settings_path = settings.source.path;
  defaults.unread = unread_settings(settings, defaults.temperature > 0);
  MKC_TRY(of_config, token_ids(config, "eos_token_id"));
  add_once(defaults.end_ids, of_config);
  MKC_TRY(of_tokenizer, end_of_turn(directory));
  add_once(defaults.end_ids, of_tokenizer);
  MKC_TRY(begin, token_ids(config, "bos_token_id"));
  if (!begin.empty()) defaults.begin_id = begin[0];
  return defaults;
}

}  // namespace mkc
