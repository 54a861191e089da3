// Tokenizer classes of transformers have special tokens that the files of a checkpoint may leave out.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/base/status.h"

namespace mkrt {

// kStandardTokens are the names of special tokens that each tokenizer of transformers has.
inline constexpr const char* kStandardTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                  "pad_token", "cls_token", "mask_token"};

// Returns the special tokens by their names that transformers gives a checkpoint's tokenizer where no file
// names others. The class is that of `tokenizer_config`, or else that of config.json's objects. Both are
// objects, which are empty where the file does not exist. The result is empty for a class without defaults.
//
// Error: tokenizer.json cannot be read. Source: transformers 5.24, models/auto/tokenization_auto.py.
Result<nlohmann::ordered_json> default_tokens(const std::string& directory,
                                              const nlohmann::json& tokenizer_config,
                                              const nlohmann::json& config);

}  // namespace mkrt
