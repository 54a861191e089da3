// Text is split, replaced and stripped as the methods of Python's str do it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/text/jinja/arena.h"

namespace mkrt::jinja {

// Returns the offset of the first occurrence, or npos. The time is linear in both sizes.
size_t find_first(std::string_view text, std::string_view wanted);
// Returns the offset of the last occurrence, or npos. Steps are counted, because the time may be their
// product.
size_t find_last(Arena& arena, std::string_view text, std::string_view wanted);

// The functions return the parts between separators, or between runs of white space. At most `limit` splits
// are made, from the begin or from the end; a negative limit stands for all. The separator is not empty.
std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, int64_t limit);
std::vector<std::string_view> split_at_from_end(Arena& arena, std::string_view text,
                                                std::string_view separator, int64_t limit);
std::vector<std::string_view> split_words(std::string_view text, int64_t limit);
std::vector<std::string_view> split_words_from_end(std::string_view text, int64_t limit);

// Returns the text with up to `limit` occurrences replaced, or all for a negative limit. An empty `old` is
// found between all characters.
std::string replace_all(Arena& arena, std::string_view text, std::string_view old, std::string_view by,
                        int64_t limit);

// Returns the text without the given characters, or without white space, at its ends.
std::string_view strip_characters(std::string_view text, std::optional<std::string_view> characters,
                                  bool left, bool right);

}  // namespace mkrt::jinja
