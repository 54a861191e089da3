#include "runtime/text/added_tokens.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <unordered_set>

#include "runtime/base/json_node.h"
#include "runtime/text/bpe.h"
#include "runtime/text/utf8.h"

namespace mkrt {
namespace {

uint64_t edge(uint32_t node, char byte) {
  return uint64_t{node} << 8 | static_cast<unsigned char>(byte);
}

// Inserts a token. The first of two tokens with equal content stays.
void insert(TokenTree& tree, std::string_view content, uint32_t token) {
  uint32_t node = 0;
  for (const char byte : content) {
    const auto [found, is_new] =
        tree.edges.try_emplace(edge(node, byte), static_cast<uint32_t>(tree.tokens.size()));
    if (is_new) tree.tokens.push_back(TokenTree::kNoToken);
    node = found->second;
  }
  if (tree.tokens[node] == TokenTree::kNoToken) tree.tokens[node] = token;
}

struct Match {
  uint32_t token;
  size_t size;
};

std::optional<Match> longest_match(const TokenTree& tree, std::string_view text) {
  std::optional<Match> longest;
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto found = tree.edges.find(edge(node, text[i]));
    if (found == tree.edges.end()) break;
    node = found->second;
    if (tree.tokens[node] != TokenTree::kNoToken) longest = Match{tree.tokens[node], i + 1};
  }
  return longest;
}

// Tells whether a code point is in \w of Unicode Technical Standard 18, annex C: Alphabetic, M, Nd, Pc,
// Join_Control.
bool is_word_character(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    case UTF8PROC_CATEGORY_SO:  // letters in circles and squares are Alphabetic, too
      return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
             (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
    default:
      return c == 0x200C || c == 0x200D;
  }
}

// Tells whether a code point has the property White_Space.
bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool stands_alone(std::string_view before, std::string_view behind) {
  return (before.empty() || !is_word_character(last_code_point(before))) &&
         (behind.empty() || !is_word_character(first_code_point(behind)));
}

size_t begin_of_trailing_space(std::string_view text) {
  while (!text.empty()) {
    const char32_t last = last_code_point(text);
    if (!is_white_space(last)) break;
    std::string bytes;
    append_utf8(last, bytes);
    text.remove_suffix(bytes.size());
  }
  return text.size();
}

size_t leading_space_size(std::string_view text) {
  size_t size = 0;
  while (size < text.size() && is_white_space(first_code_point(text.substr(size))))
    size += scan_utf8(text.substr(size)).size;
  return size;
}

// SpaceRuns finds the white space around offsets of a text. Ascending offsets read each run once, and many
// tokens may touch one run.
class SpaceRuns {
 public:
  struct Run {
    size_t begin;
    size_t end;
  };

  explicit SpaceRuns(std::string_view text) : text_(text) {}

  // Returns the run of white space that holds or touches the offset of a character. The run may be empty.
  Run around(size_t offset) {
    if (!run_ || offset < run_->begin || offset > run_->end)
      run_ = {begin_of_trailing_space(text_.substr(0, offset)),
              offset + leading_space_size(text_.substr(offset))};
    return *run_;
  }

 private:
  std::string_view text_;
  std::optional<Run> run_;
};

AddedToken read_added_token(const JsonNode& node) {
  node.allow_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken token;
  token.id = node.at("id").integer(kMaxTokenId);
  token.content = node.at("content").string();
  token.single_word = node.at("single_word").boolean();
  token.lstrip = node.at("lstrip").boolean();
  token.rstrip = node.at("rstrip").boolean();
  token.normalized = node.at("normalized").boolean();
  token.special = node.at("special").boolean();
  if (token.content.empty()) node.at("content").fail_expected("at least one character");
  return token;
}

// IdCheck checks that an added token has the model's id, if the model has its content. An id or content must
// stand for one token only.
class IdCheck {
 public:
  explicit IdCheck(const Bpe& model) : model_(model) {
    for (const auto& [content, id] : model.ids) taken_.insert(id);
  }

  void add(const AddedToken& token, const JsonNode& node) {
    if (!contents_.insert(token.content).second)
      node.fail(fmt::format("\"{}\" is added twice", token.content));
    const auto in_model = model_.ids.find(token.content);
    if (in_model != model_.ids.end()) {
      if (in_model->second != token.id)
        node.fail(fmt::format("\"{}\" has id {}, but {} in model.vocab", token.content, token.id,
                              in_model->second));
    } else if (!taken_.insert(token.id).second) {
      node.fail(fmt::format("id {} of \"{}\" belongs to another token", token.id, token.content));
    }
  }

 private:
  const Bpe& model_;
  std::unordered_set<int32_t> taken_;
  std::unordered_set<std::string> contents_;
};

}  // namespace

AddedTokens read_added_tokens(const JsonNode& node, const Bpe& model,
                              const std::vector<Normalizer>& normalizers) {
  AddedTokens added;
  IdCheck ids(model);
  for (const JsonNode& item : node.items()) {
    added.tokens.push_back(read_added_token(item));
    AddedToken& token = added.tokens.back();
    ids.add(token, item);
    if (item.failed()) return {};
    if (token.normalized) token.content = normalize(normalizers, token.content).text;
    // The package tokenizers cuts texts between all characters for such a token.
    if (token.content.empty())
      item.at("content").fail("normalizers leave nothing of it, expected at least one character");
  }
  // Two contents may become equal by normalization. A special token is inserted first and so wins.
  for (const bool special : {true, false}) {
    for (size_t i = 0; i < added.tokens.size(); ++i) {
      const AddedToken& token = added.tokens[i];
      if (token.special != special) continue;
      insert(token.normalized ? added.in_normalized_text : added.in_text, token.content,
             static_cast<uint32_t>(i));
    }
  }
  return added;
}

std::vector<Segment> split_at_added_tokens(const AddedTokens& added, const TokenTree& tree,
                                           std::string_view text) {
  std::vector<Segment> segments;
  SpaceRuns spaces(text);
  size_t done = 0;
  size_t at = 0;
  while (at < text.size()) {
    const std::optional<Match> match = longest_match(tree, text.substr(at));
    if (!match) {
      ++at;
      continue;
    }
    const AddedToken& token = added.tokens[match->token];
    size_t begin = at;
    size_t end = at + match->size;
    // The search continues behind the content, even inside white space that rstrip includes.
    at = end;
    if (added.split_special && token.special) continue;
    if (token.single_word && !stands_alone(text.substr(0, begin), text.substr(end))) continue;
    if (token.lstrip) begin = std::max(spaces.around(begin).begin, done);
    if (token.rstrip) end = spaces.around(end).end;
    if (begin >= end) continue;  // The token before it has taken in all of it.
    if (begin > done) segments.push_back({text.substr(done, begin - done), std::nullopt});
    segments.push_back({text.substr(begin, end - begin), token.id});
    done = end;
  }
  if (done < text.size()) segments.push_back({text.substr(done), std::nullopt});
  return segments;
}

}  // namespace mkrt
