// A tokenizer as Hugging Face's tokenizer.json describes it: byte-level BPE, and the BPE of SentencePiece
// models.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/added_tokens.h"
#include "runtime/text/bpe.h"
#include "runtime/text/decoder.h"
#include "runtime/text/normalizer.h"
#include "runtime/text/post_processor.h"
#include "runtime/text/pre_tokenizer.h"

namespace mkrt {

// Immutable once loaded: threads may share it.
struct Tokenizer {
  AddedTokens added;
  std::vector<Normalizer> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizer;
  Bpe model;
  PostProcessor post_processor;
  Decoder decoder;
};

// Reads a tokenizer.json. Whatever it holds that is not supported is an error with its path in the document.
Result<Tokenizer> load_tokenizer(const std::string& path);

// The ids of a text. add_special adds what the post-processor puts around it (e.g. the token that begins a
// text); added tokens inside of the text are always found. Errors: text that is not UTF-8 (with the byte
// offset) or is larger than 256 MiB, a character without a token, a pattern that exceeds its limits.
Result<std::vector<int32_t>> encode(const Tokenizer& tokenizer, std::string_view text, bool add_special);

// The text of ids; bytes that are no UTF-8 become U+FFFD. For ids that come one by one use StreamDecoder on
// tokenizer.decoder. An error if no token has one of the ids.
Result<std::string> decode(const Tokenizer& tokenizer, std::span<const int32_t> ids, bool skip_special);

}  // namespace mkrt
