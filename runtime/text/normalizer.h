// Normalizers change a text before it is cut into pieces.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace mkrt {

class JsonNode;

// Nfc is canonical composition (Unicode Standard Annex 15).
struct Nfc {};

// PrependText puts a string before a text that is not empty.
struct PrependText {
  std::string text;
};

// ReplaceText replaces all occurrences of a string that is not empty.
struct ReplaceText {
  std::string from;
  std::string to;
};

using Normalizer = std::variant<Nfc, PrependText, ReplaceText>;

// Reads the normalizer section of tokenizer.json.
std::vector<Normalizer> read_normalizers(const JsonNode& node);

struct NormalizedText {
  std::string text;  // valid UTF-8
  size_t front = 0;  // bytes at its begin that come from the first character of the text before
};

// Returns the text after all normalizers. Requires valid UTF-8. A replacement comes from the last character
// that it replaces, as in the package tokenizers.
NormalizedText normalize(const std::vector<Normalizer>& normalizers, std::string_view text);

// Reads {"type": "Replace", "pattern": {"String": …}, "content": …} of a normalizer or a decoder.
ReplaceText read_replace(const JsonNode& node);
// Fails where replacements, one after the other, could make a text more than 64 times as long. Each step may
// multiply the length, and a few steps would fill the memory.
void check_growth(const JsonNode& node, std::span<const ReplaceText> steps);
// Returns the text with all occurrences replaced. Requires a string that is not empty to be replaced.
std::string replace_all(const ReplaceText& replace, std::string_view text);

}  // namespace mkrt
