// Decoders turn ids back into text, at once or id by id.
#pragma once

#include <cstdint>
#include <string>
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
  kRunOfBytes  // a byte <0x..>; bytes of such tokens in a row are a run
};

struct DecodedToken {
  TokenKind kind = TokenKind::kNone;
  bool special = false;
  std::string bytes;
};

struct Decoder {
  std::vector<DecodedToken> tokens;  // by id
  std::string strip;                 // a character that is removed from the front of a text,
  int32_t strip_count = 0;           // at most this many times
};

// Reads the decoder section of tokenizer.json. Supported: ByteLevel, and the decoder of SentencePiece models:
// Sequence of Replace, ByteFallback, Fuse, Strip.
Decoder read_decoder(const JsonNode& node, const Bpe& model, const AddedTokens& added);

// ByteRuns says what becomes of a run of byte tokens <0x..> with an invalid byte.
enum class ByteRuns : uint8_t {
  kStreamed,  // its whole characters are put out at once; from the invalid character on, bytes become U+FFFD
  kWhole      // all of its bytes become U+FFFD, as in the package tokenizers; a run is put out at its end
};

// StreamDecoder decodes ids one by one. A call returns whole characters only. Bytes that are no UTF-8 become
// U+FFFD.
//
// The outputs of all calls together are the text of all ids, decode(). They differ only in a streamed run of
// byte tokens that has whole characters before its first invalid byte: decode() replaces these, too.
class StreamDecoder {
 public:
  // The decoder must outlive the StreamDecoder. `skip_special` omits the special tokens.
  StreamDecoder(const Decoder& decoder, bool skip_special, ByteRuns runs = ByteRuns::kStreamed);

  // Returns the characters that are complete now, perhaps none. Errors: no token has this id.
  Result<std::string> push(int32_t id);
  // Returns the text that is left at the end, and resets the StreamDecoder.
  std::string flush();

  // Makes the ids so far a prompt, whose text the outputs leave out. A character that the prompt begins and
  // later ids complete is put out. Nothing is removed from the front of the outputs once the prompt has text.
  void leave_out_prompt();
  // Returns the text that is left before text of another kind, which counts as the front from now on.
  std::string interrupt();

 private:
  std::string take_whole_characters();
  std::string replace_bytes();
  std::string take_from_run();
  std::string end_run();
  std::string strip_front(std::string text);

  const Decoder* decoder_;
  bool skip_special_;
  ByteRuns runs_;
  std::string pending_;          // the begin of a character, or a whole run of bytes
  size_t prompt_bytes_ = 0;      // at the front of `pending_`; no output has a character of these alone
  bool pending_is_run_ = false;  // `pending_` is of a run of bytes; a decoder has only one of the two forms
  bool run_is_invalid_ = false;  // a streamed run had an invalid byte
  int32_t strips_left_;          // characters that may still be removed from the front
};

}  // namespace mkrt
