// Decoders: turn ids back into text, at once or as they come.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace mkrt {

class JsonNode;
struct AddedTokens;
struct Bpe;

enum class TokenKind : uint8_t {
  kNone,       // no token has this id
  kBytes,      // bytes that may be part of a character
  kText,       // whole characters
  kRunOfBytes  // a byte <0x..>: a run of these is text only as a whole
};

struct DecodedToken {
  TokenKind kind = TokenKind::kNone;
  bool special = false;
  std::string bytes;
};

struct Decoder {
  std::vector<DecodedToken> tokens;  // by id
  std::string strip;                 // a character to be taken off the front of a text,
  int32_t strip_count = 0;           // so many times at most
};

// Supported: ByteLevel, and the decoder of SentencePiece models: Sequence of Replace, ByteFallback, Fuse,
// Strip.
Decoder read_decoder(const JsonNode& node, const Bpe& model, const AddedTokens& added);

// Decodes ids one by one. The outputs of all calls, one behind the other, are the text of all ids. Only whole
// characters are put out; bytes that are no UTF-8 become U+FFFD.
class StreamDecoder {
 public:
  // The decoder must outlive it. skip_special leaves out the special tokens.
  StreamDecoder(const Decoder& decoder, bool skip_special);

  // The characters that are complete now, perhaps none. An error if no token has this id.
  Result<std::string> push(int32_t id);
  // What is left at the end. The decoder is then as new.
  std::string flush();

 private:
  std::string take_run_of_bytes();
  std::string strip_front(std::string text);

  const Decoder* decoder_;
  bool skip_special_;
  std::string pending_;          // the start of a character, or a run of bytes
  bool pending_is_run_ = false;  // which of these it is; a decoder has only one of the two
  int32_t strips_left_;          // characters that may still be taken off the front
};

}  // namespace mkrt
