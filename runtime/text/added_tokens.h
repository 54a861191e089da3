// Added tokens are strings that are found in a text before any other step reads it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/text/normalizer.h"

namespace mkrt {

class JsonNode;
struct Bpe;

struct AddedToken {
  int32_t id = 0;
  std::string content;       // normalized, if it is searched in the normalized text
  bool single_word = false;  // matches only without a word character next to it
  bool lstrip = false;       // includes the white space before it
  bool rstrip = false;       // includes the white space behind it
  bool normalized = false;   // searched in the normalized text
  bool special = false;      // omitted from a decoded text on demand
};

// TokenTree is a prefix tree of byte strings.
struct TokenTree {
  static constexpr uint32_t kNoToken = UINT32_MAX;
  std::unordered_map<uint64_t, uint32_t> edges;  // node * 256 + byte -> node; node 0 is the root
  std::vector<uint32_t> tokens = {kNoToken};     // node -> index of the token that ends there
};

struct AddedTokens {
  std::vector<AddedToken> tokens;
  TokenTree in_text;             // tokens searched in the unchanged text
  TokenTree in_normalized_text;  // the others
  bool split_special = false;    // special tokens in a text are ordinary text
};

// A Segment is an added token, or a stretch of text that holds none.
struct Segment {
  std::string_view text;
  std::optional<int32_t> id;
};

// Reads the added tokens of tokenizer.json. Faults: ids that do not agree with the model's vocabulary.
AddedTokens read_added_tokens(const JsonNode& node, const Bpe& model,
                              const std::vector<Normalizer>& normalizers);

// Cuts a text at the tokens of the tree. The leftmost match wins, and of several there the longest. Requires
// valid UTF-8.
std::vector<Segment> split_at_added_tokens(const AddedTokens& added, const TokenTree& tree,
                                           std::string_view text);

}  // namespace mkrt
