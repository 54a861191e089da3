// Added tokens: strings that are found in a text before anything else looks at it.
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
  std::string content;       // normalized, if it is to be found in the normalized text
  bool single_word = false;  // only where no word character stands next to it
  bool lstrip = false;       // takes in the white space before it
  bool rstrip = false;       // takes in the white space behind it
  bool normalized = false;   // is looked for in the normalized text
  bool special = false;      // left out of a decoded text on demand
};

// A prefix tree of byte strings.
struct TokenTree {
  static constexpr uint32_t kNoToken = UINT32_MAX;
  std::unordered_map<uint64_t, uint32_t> edges;  // node * 256 + byte -> node; node 0 is the root
  std::vector<uint32_t> tokens = {kNoToken};     // node -> index of the token that ends there
};

struct AddedTokens {
  std::vector<AddedToken> tokens;
  TokenTree in_text;             // those to be looked for in the text as it is
  TokenTree in_normalized_text;  // the others
};

// A part of a text: an added token, or what no added token covers.
struct Segment {
  std::string_view text;
  std::optional<int32_t> id;
};

// Ids must agree with those of the model's vocabulary.
AddedTokens read_added_tokens(const JsonNode& node, const Bpe& model,
                              const std::vector<Normalizer>& normalizers);

// Cuts a text at the tokens of the tree: leftmost first, of these the longest. Requires valid UTF-8.
std::vector<Segment> split_at_added_tokens(const AddedTokens& added, const TokenTree& tree,
                                           std::string_view text);

}  // namespace mkrt
