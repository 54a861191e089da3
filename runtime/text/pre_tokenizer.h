// Pre-tokenizers cut a text into pieces. No token crosses the end of a piece.
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

// Pieces has the pieces of a text, one behind the other. Piece i ends at byte ends[i]. No piece is empty.
struct Pieces {
  std::string text;
  std::vector<size_t> ends;
};

// PrefixPieces puts a prefix before a piece that does not start with it.
struct PrefixPieces {
  std::string prefix;
  bool only_at_start_of_text;
};

// SplitBehavior says where the matches (delimiters) go when a piece is cut at them.
enum class SplitBehavior : uint8_t { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct SplitPieces {
  std::variant<std::string, Regex> pattern;  // an empty string matches nowhere
  SplitBehavior behavior;
  bool invert;  // the delimiters are the text between the matches
};

// MapBytes writes every byte as its character of the byte-level alphabet.
struct MapBytes {};

// The pre-tokenizers of tokenizer.json consist of these steps:
//   ByteLevel = PrefixPieces (a space), SplitPieces (the pattern of GPT-2), MapBytes
//   Metaspace = ReplaceText (spaces), PrefixPieces, SplitPieces
//   all others = SplitPieces: Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer, …
using PreTokenizerStep = std::variant<PrefixPieces, ReplaceText, SplitPieces, MapBytes>;

// Reads the pre-tokenizer section of tokenizer.json.
std::vector<PreTokenizerStep> read_pre_tokenizer(const JsonNode& node);

// Returns the pieces of a text after all steps. `at_start_of_text`: the text begins with what is left of the
// first character of the caller's text. Requires valid UTF-8. Errors: a pattern exceeds its limits or the
// time of the caller's text.
Result<Pieces> pre_tokenize(const std::vector<PreTokenizerStep>& steps, std::string_view text,
                            bool at_start_of_text, MatchTime& time);

}  // namespace mkrt
