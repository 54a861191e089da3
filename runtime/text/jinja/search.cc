#include "runtime/text/jinja/search.h"

#include <algorithm>
#include <cstring>

#include "runtime/text/jinja/text.h"
#include "runtime/text/utf8.h"

namespace mkrt::jinja {
namespace {

size_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

// Returns the bytes of the characters at the begin that are not white space.
size_t word_bytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && !is_space(first_code_point(text.substr(at))))
    at += scan_utf8(text.substr(at)).size;
  return at;
}

}  // namespace

size_t find_first(std::string_view text, std::string_view wanted) {
  if (wanted.empty()) return 0;
  const void* found = memmem(text.data(), text.size(), wanted.data(), wanted.size());
  return found == nullptr ? text.npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t find_last(Arena& arena, std::string_view text, std::string_view wanted) {
  constexpr size_t kShort = 64;  // bytes for which the product is not worth counting
  if (wanted.size() > kShort) arena.step(text.size() / kShort * wanted.size());
  return text.rfind(wanted);
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, int64_t limit) {
  std::vector<std::string_view> parts;
  for (size_t at = find_first(text, separator); at != text.npos && limit != 0;
       at = find_first(text, separator), --limit) {
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> split_at_from_end(Arena& arena, std::string_view text,
                                                std::string_view separator, int64_t limit) {
  std::vector<std::string_view> parts;
  for (size_t at = find_last(arena, text, separator); at != text.npos && limit != 0;
       at = find_last(arena, text, separator), --limit) {
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_words(std::string_view text, int64_t limit) {
  std::vector<std::string_view> parts;
  text.remove_prefix(leading_spaces(text));
  for (; !text.empty() && limit != 0; --limit) {
    const size_t size = word_bytes(text);
    parts.push_back(text.substr(0, size));
    text.remove_prefix(size);
    text.remove_prefix(leading_spaces(text));
  }
  if (!text.empty()) parts.push_back(text);
  return parts;
}

std::vector<std::string_view> split_words_from_end(std::string_view text, int64_t limit) {
  std::vector<std::string_view> parts;
  text.remove_suffix(trailing_spaces(text));
  for (; !text.empty() && limit != 0; --limit) {
    size_t begin = text.size();
    while (begin > 0) {
      const size_t at = last_character(text.substr(0, begin));
      if (is_space(first_code_point(text.substr(at)))) break;
      begin = at;
    }
    parts.push_back(text.substr(begin));
    text = text.substr(0, begin);
    text.remove_suffix(trailing_spaces(text));
  }
  if (!text.empty()) parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::string replace_all(Arena& arena, std::string_view text, std::string_view old, std::string_view by,
                        int64_t limit) {
  arena.read(text.size());
  std::string result;
  if (old.empty()) {
    for (; limit != 0; --limit) {
      arena.charge(by.size());
      result += by;
      if (text.empty()) return result;
      const size_t size = scan_utf8(text).size;
      result += text.substr(0, size);
      text.remove_prefix(size);
    }
    return result.append(text);
  }
  for (size_t at = find_first(text, old); at != text.npos && limit != 0;
       at = find_first(text, old), --limit) {
    arena.charge(at + by.size());
    result.append(text.substr(0, at)).append(by);
    text.remove_prefix(at + old.size());
  }
  return result.append(text);
}

std::string_view strip_characters(std::string_view text, std::optional<std::string_view> characters,
                                  bool left, bool right) {
  std::u32string wanted = characters ? decode(*characters) : U"";
  std::sort(wanted.begin(), wanted.end());
  const auto goes = [&](std::string_view from) {
    const char32_t c = first_code_point(from);
    return characters ? std::binary_search(wanted.begin(), wanted.end(), c) : is_space(c);
  };
  while (left && !text.empty() && goes(text)) text.remove_prefix(scan_utf8(text).size);
  while (right && !text.empty() && goes(text.substr(last_character(text))))
    text = text.substr(0, last_character(text));
  return text;
}

}  // namespace mkrt::jinja
