// transformers adds tokens to a tokenizer that other files of the checkpoint name.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/base/status.h"

namespace mkrt {

// Adds tokens to `added_tokens` of tokenizer.json's document, as transformers 5.24 does: those of
// added_tokens_decoder in tokenizer_config.json, whose flags go before tokenizer.json's, then bos_token and
// the six others, then the extra special tokens. special_tokens_map.json names them where
// tokenizer_config.json has no added_tokens_decoder. A token has its id of the vocabulary, or else the next
// free one. A document that is no tokenizer.json stays as it is.
//
// Errors: a file that is not JSON.
// Source: transformers 5.24, tokenization_utils_tokenizers.py and tokenization_utils_base.py.
Status add_config_tokens(nlohmann::json& tokenizer, const std::string& directory);

}  // namespace mkrt
