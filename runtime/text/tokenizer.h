// Hugging Face's tokenizer.json describes tokenizers: byte-level BPE, and the BPE of SentencePiece models.
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

// A loaded Tokenizer is immutable, so that threads may share it.
struct Tokenizer {
  AddedTokens added;
  std::vector<Normalizer> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizer;
  Bpe model;
  PostProcessor post_processor;
  Decoder decoder;
};

// Reads a tokenizer.json. Errors: an unsupported part, with its path in the document.
Result<Tokenizer> load_tokenizer(const std::string& path);

// Reads tokenizer.json of a checkpoint, with the tokens that its other files add (config_tokens.h). Errors:
// those of both.
Result<Tokenizer> load_checkpoint_tokenizer(const std::string& directory);

// Reads the text of a tokenizer.json. Errors, which name `path`: an unsupported part.
Result<Tokenizer> read_tokenizer(std::string_view text, const std::string& path);

// Returns the ids of a text. `add_special` adds the post-processor's ids around it, such as the token that
// begins a text. Added tokens inside the text are always found.
//
// Errors: text that is not UTF-8, with the byte offset; text of more than 256 MiB. Also errors: a character
// without a token; a pattern that exceeds its limits of steps, or the time of MatchTime(text.size()).
Result<std::vector<int32_t>> encode(const Tokenizer& tokenizer, std::string_view text, bool add_special);

// Returns the text of ids. Bytes that are no UTF-8 become U+FFFD, and a run of byte tokens <0x..> with an
// invalid byte becomes U+FFFD for each byte (ByteRuns::kWhole). Ids that arrive one by one need a
// StreamDecoder on tokenizer.decoder. Errors: no token has one of the ids.
Result<std::string> decode(const Tokenizer& tokenizer, std::span<const int32_t> ids, bool skip_special);

}  // namespace mkrt
