// Pre-tokenizers: cut a text into pieces that no token crosses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/normalizer.h"
#include "runtime/text/regex.h"

namespace mkrt {

// Pieces of a text, one behind the other; piece i ends at byte ends[i]. No piece is empty.
struct Pieces {
  std::string text;
  std::vector<size_t> ends;
};

// Puts a prefix before a piece that does not start with it.
struct PrefixPieces {
  std::string prefix;
  bool only_at_start_of_text;
};

// What becomes of the matches (delimiters) when a piece is cut at them.
enum class SplitBehavior : uint8_t { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct SplitPieces {
  std::variant<std::string, Regex> pattern;  // an empty string matches nowhere
  SplitBehavior behavior;
  bool invert;  // the delimiters are what lies between the matches
};

// Writes every byte as its character of the byte-level alphabet.
struct MapBytes {};

// The steps that the pre-tokenizers of tokenizer.json are made of:
//   ByteLevel = PrefixPieces (a space), SplitPieces (the pattern of GPT-2), MapBytes
//   Metaspace = ReplaceText (spaces), PrefixPieces, SplitPieces
//   all others = SplitPieces: Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer, …
using PreTokenizerStep = std::variant<PrefixPieces, ReplaceText, SplitPieces, MapBytes>;

std::vector<PreTokenizerStep> read_pre_tokenizer(const JsonNode& node);

// Requires valid UTF-8. at_start_of_text: no character comes before this text in what the caller was given.
// An error if a pattern exceeds its limits.
Result<Pieces> pre_tokenize(const std::vector<PreTokenizerStep>& steps, std::string_view text,
                            bool at_start_of_text);

}  // namespace mkrt
