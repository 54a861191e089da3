// Byte-pair encoding turns a piece of text into ids.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"

namespace mkrt {

class JsonNode;

// The largest id that a file may use. No vocabulary needs more, and the bound is small enough to index a
// table.
inline constexpr int32_t kMaxTokenId = (1 << 22) - 1;
inline constexpr int32_t kNoTokenId = -1;

// StringHash lets a map of strings be searched by a view.
struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

// A Merge is the token that two adjacent tokens merge into. The lowest rank merges first.
struct Merge {
  uint32_t rank;
  int32_t id;
};

struct Bpe {
  std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>> ids;
  std::unordered_map<uint64_t, Merge> merges;  // left id << 32 | right id
  std::optional<int32_t> unknown_id;
  bool fuse_unknown = false;   // a run of unknown characters is one token
  bool ignore_merges = false;  // a piece that is a token is encoded as that token, whatever the merges build
  bool byte_fallback = false;  // an unknown character becomes the tokens <0x..> of its bytes
  std::array<int32_t, 256> byte_ids{};
};

// Reads the model section of tokenizer.json.
Bpe read_bpe(const JsonNode& node);

// Appends the ids of one piece. Requires valid UTF-8. Takes time n log n for n characters. Errors: a
// character without a token, where there is no token for unknown characters.
Status encode_piece(const Bpe& bpe, std::string_view piece, std::vector<int32_t>& ids);

}  // namespace mkrt
