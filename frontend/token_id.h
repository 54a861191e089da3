// tokenizer.json says which id a token has. Its whole tokenizer need not be read for that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mkc {

// Returns the id that `tokenizer_file` gives a token: that of an added token, or else that of the vocabulary.
// Returns nothing where the file has no such token, does not exist or cannot be read up to the token. Its own
// reader names faults.
std::optional<int32_t> token_id(const std::string& tokenizer_file, const std::string& token);

}  // namespace mkc
