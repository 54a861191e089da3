// Tokens become text for people and programs.
#pragma once

#include <span>
#include <string>

#include "runtime/text/tokenizer.h"

namespace mkc {

// TokenText decodes tokens one at a time, without special tokens unless they are asked for. An id without a
// token becomes "<id>": vocabularies are padded, so a model may sample such an id.
class TokenText {
 public:
  explicit TokenText(const mkrt::Tokenizer& tokenizer, bool skip_special = true,
                     mkrt::ByteRuns runs = mkrt::ByteRuns::kStreamed)
      : decoder_(tokenizer.decoder, skip_special, runs) {}
  std::string add(int32_t id);
  std::string finish() { return decoder_.flush(); }
  // Makes the tokens so far a prompt, whose text goes on: StreamDecoder::leave_out_prompt().
  void leave_out_prompt() { decoder_.leave_out_prompt(); }

 private:
  mkrt::StreamDecoder decoder_;
};

// Returns a TokenText of what follows a prompt.
TokenText text_after(const mkrt::Tokenizer& tokenizer, std::span<const int32_t> prompt,
                     bool skip_special = true);

// Returns the text of all tokens, alike, behind what `text` has.
std::string text_of(TokenText text, std::span<const int32_t> ids);

}  // namespace mkc
