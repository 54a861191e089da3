// transformers adds tokens to a tokenizer that other files of the checkpoint name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/base/status.h"

namespace mkrt {

// Adds tokens to `added_tokens` of tokenizer.json's document, as transformers 5.24 does. A document that is
// no tokenizer.json stays as it is. The tokens come in this order:
// - those of added_tokens_decoder in tokenizer_config.json, whose flags go before tokenizer.json's;
// - bos_token and the six others, further keys that end in _token, and extra special tokens.
//
// special_tokens_map.json names the latter, too, where tokenizer_config.json has no added_tokens_decoder. A
// special token stays one, and the seven are always special. A token has its id of the vocabulary, or else
// the next free one. A token whose id is not below vocab_size of config.json is left out.
//
// Returns `split_special_tokens` of tokenizer_config.json: AddedTokens::split_special.
//
// Errors: one of the three files is not strict JSON (parse_json_text), is too large or cannot be read;
// split_special_tokens is not true or false.
// Source: transformers 5.24, tokenization_utils_tokenizers.py and tokenization_utils_base.py.
Result<bool> add_config_tokens(nlohmann::json& tokenizer, const std::string& directory);

}  // namespace mkrt
