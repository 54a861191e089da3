// Punctuation is what the package tokenizers takes for it.
#pragma once

#include <string>

namespace mkrt {

// Returns a class of a pattern in the dialect of tokenizer.json. The class holds the punctuation of Unicode
// 8, and the signs and symbols of ASCII.
std::string punctuation_class();

}  // namespace mkrt
