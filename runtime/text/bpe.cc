#include "runtime/text/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>
#include <unordered_set>

#include "runtime/base/json_node.h"
#include "runtime/text/utf8.h"

namespace mkrt {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// --- reading -------------------------------------------------------------------------------------

void read_vocab(const JsonNode& node, Bpe& bpe) {
  std::unordered_set<int32_t> taken;
  for (const auto& [token, value] : node.members()) {
    const int32_t id = value.integer(kMaxTokenId);
    if (!taken.insert(id).second) value.fail(fmt::format("id {} belongs to another token", id));
    bpe.ids.emplace(token, id);
  }
}

struct MergePair {
  std::string left, right;
};

// Reads a merge, which is ["a", "b"], or "a b" in older files.
MergePair read_merge_pair(const JsonNode& node) {
  const nlohmann::json& value = node.raw();
  if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string())
    return {value[0], value[1]};
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
      return {text.substr(0, space), text.substr(space + 1)};
  }
  node.fail_expected("[\"a\", \"b\"] or \"a b\"");
  return {};
}

void read_merges(const JsonNode& node, Bpe& bpe) {
  uint32_t rank = 0;
  for (const JsonNode& item : node.items()) {
    const MergePair pair = read_merge_pair(item);
    std::array<int32_t, 3> ids;
    const std::array<std::string, 3> tokens = {pair.left, pair.right, pair.left + pair.right};
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto found = bpe.ids.find(tokens[i]);
      if (found == bpe.ids.end()) return item.fail(fmt::format("\"{}\" is not in model.vocab", tokens[i]));
      ids[i] = found->second;
    }
    bpe.merges.insert_or_assign(pair_key(ids[0], ids[1]), Merge{rank++, ids[2]});
  }
}

int32_t id_or_none(const Bpe& bpe, std::string_view token) {
  const auto found = bpe.ids.find(token);
  return found == bpe.ids.end() ? kNoTokenId : found->second;
}

void read_unknown_token(const JsonNode& node, Bpe& bpe) {
  if (node.is_null()) return;
  const int32_t id = id_or_none(bpe, node.string());
  if (id == kNoTokenId) return node.fail(fmt::format("\"{}\" is not in model.vocab", node.string()));
  bpe.unknown_id = id;
}

void expect_none(const JsonNode& node) {
  if (!node.is_null() && !node.raw().empty()) node.fail_unsupported("null, \"\"");
}

// --- encoding ------------------------------------------------------------------------------------

// Appends the tokens of a piece's characters, before any merge.
Status split_into_characters(const Bpe& bpe, std::string_view piece, std::vector<int32_t>& tokens) {
  bool has_unknown = false;  // an unknown token that is not appended yet
  while (!piece.empty()) {
    const std::string_view character = piece.substr(0, scan_utf8(piece).size);
    piece.remove_prefix(character.size());
    const int32_t id = id_or_none(bpe, character);
    if (id != kNoTokenId) {
      if (has_unknown) tokens.push_back(*bpe.unknown_id);
      has_unknown = false;
      tokens.push_back(id);
      continue;
    }
    const auto has_token = [&](char byte) {
      return bpe.byte_ids[static_cast<unsigned char>(byte)] != kNoTokenId;
    };
    if (bpe.byte_fallback && std::all_of(character.begin(), character.end(), has_token)) {
      for (const char byte : character) tokens.push_back(bpe.byte_ids[static_cast<unsigned char>(byte)]);
      continue;
    }
    if (!bpe.unknown_id)
      return Error{fmt::format("the vocabulary has no token for the character U+{:04X}",
                               static_cast<uint32_t>(first_code_point(character)))};
    if (has_unknown && !bpe.fuse_unknown) tokens.push_back(*bpe.unknown_id);
    has_unknown = true;
  }
  if (has_unknown) tokens.push_back(*bpe.unknown_id);
  return {};
}

// MergeQueue holds the tokens in a linked list over their first positions, and the possible merges in a
// queue.
class MergeQueue {
 public:
  MergeQueue(const Bpe& bpe, std::vector<int32_t>& tokens)
      : bpe_(bpe), tokens_(tokens), links_(tokens.size()) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      links_[i] = {i == 0 ? kEnd : static_cast<uint32_t>(i - 1),
                   i + 1 == tokens.size() ? kEnd : static_cast<uint32_t>(i + 1)};
    }
    for (uint32_t i = 0; i + 1 < tokens.size(); ++i) offer(i);
  }

  void run() {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      if (!is_current(top)) continue;
      const uint32_t right = links_[top.left].next;
      tokens_[top.left] = top.id;
      tokens_[right] = kNoTokenId;
      links_[top.left].next = links_[right].next;
      if (links_[right].next != kEnd) links_[links_[right].next].previous = top.left;
      if (links_[top.left].previous != kEnd) offer(links_[top.left].previous);
      offer(top.left);
    }
    std::erase(tokens_, kNoTokenId);
  }

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;

  struct Link {
    uint32_t previous, next;
  };

  struct Candidate {
    uint32_t rank;
    uint32_t left;
    int32_t id;
    // The queue returns the greatest element first: the lowest rank, then the leftmost.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };

  const Merge* merge_at(uint32_t left) const {
    const uint32_t right = links_[left].next;
    if (right == kEnd || tokens_[left] == kNoTokenId) return nullptr;
    const auto found = bpe_.merges.find(pair_key(tokens_[left], tokens_[right]));
    return found == bpe_.merges.end() ? nullptr : &found->second;
  }

  void offer(uint32_t left) {
    if (const Merge* merge = merge_at(left)) queue_.push({merge->rank, left, merge->id});
  }

  // Tells whether the pair still merges into the candidate's token. An earlier merge may have changed the
  // pair.
  bool is_current(const Candidate& candidate) const {
    const Merge* merge = merge_at(candidate.left);
    return merge != nullptr && merge->id == candidate.id;
  }

  const Bpe& bpe_;
  std::vector<int32_t>& tokens_;
  std::vector<Link> links_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

Bpe read_bpe(const JsonNode& node) {
  Bpe bpe;
  const JsonNode type = node.optional("type");
  if (!type.is_null()) type.one_of({"BPE"});
  node.allow_keys({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                   "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  const JsonNode dropout = node.optional("dropout");
  if (!dropout.is_null() && dropout.raw() != 0) dropout.fail_unsupported("null, 0");
  expect_none(node.optional("continuing_subword_prefix"));
  expect_none(node.optional("end_of_word_suffix"));
  bpe.fuse_unknown = node.optional("fuse_unk").boolean_or(false);
  bpe.byte_fallback = node.optional("byte_fallback").boolean_or(false);
  bpe.ignore_merges = node.optional("ignore_merges").boolean_or(false);
  read_vocab(node.at("vocab"), bpe);
  if (node.failed()) return bpe;
  read_merges(node.at("merges"), bpe);
  read_unknown_token(node.optional("unk_token"), bpe);
  for (size_t byte = 0; byte < bpe.byte_ids.size(); ++byte)
    bpe.byte_ids[byte] = id_or_none(bpe, fmt::format("<0x{:02X}>", byte));
  return bpe;
}

Status encode_piece(const Bpe& bpe, std::string_view piece, std::vector<int32_t>& ids) {
  if (bpe.ignore_merges) {
    const int32_t id = id_or_none(bpe, piece);
    if (id != kNoTokenId) {
      ids.push_back(id);
      return {};
    }
  }
  std::vector<int32_t> tokens;
  Status status = split_into_characters(bpe, piece, tokens);
  if (!status.ok()) return status;
  MergeQueue(bpe, tokens).run();
  ids.insert(ids.end(), tokens.begin(), tokens.end());
  return {};
}

}  // namespace mkrt
