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
  explicit TokenText(const mkrt::Tokenizer& tokenizer, bool skip_special = true)
      : decoder_(tokenizer.decoder, skip_special) {}
  std::string add(int32_t id);
  std::string finish() { return decoder_.flush(); }

 private:
  mkrt::StreamDecoder decoder_;
};

// Returns the text of all tokens, alike.
std::string text_of(const mkrt::Tokenizer& tokenizer, std::span<const int32_t> ids, bool skip_special = true);

}  // namespace mkc
