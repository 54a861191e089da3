// The text of tokens as people and programs get it.
#pragma once

#include <span>
#include <string>

#include "runtime/text/tokenizer.h"

namespace mkc {

// Text as its tokens come, without the special ones. A model may sample an id that its tokenizer has no token
// for, as vocabularies are padded: that is "<id>".
class TokenText {
 public:
  explicit TokenText(const mkrt::Tokenizer& tokenizer) : decoder_(tokenizer.decoder, true) {}
  std::string add(int32_t id);
  std::string finish() { return decoder_.flush(); }

 private:
  mkrt::StreamDecoder decoder_;
};

// All at once.
std::string text_of(const mkrt::Tokenizer& tokenizer, std::span<const int32_t> ids);

}  // namespace mkc
