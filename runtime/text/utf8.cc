#include "runtime/text/utf8.h"

#include <fmt/format.h>
#include <utf8proc.h>

namespace mkrt {
namespace {

struct ByteRange {
  unsigned char low, high;
};

// Followers are the bytes that follow a lead byte: their number, and the range of the first (Unicode 15,
// table 3-7).
struct Followers {
  size_t count;
  ByteRange first;
};

constexpr Followers kNoLeadByte{0, {0, 0}};

Followers followers_of(unsigned char lead) {
  if (lead < 0xC2) return kNoLeadByte;
  if (lead < 0xE0) return {1, {0x80, 0xBF}};
  if (lead == 0xE0) return {2, {0xA0, 0xBF}};
  if (lead == 0xED) return {2, {0x80, 0x9F}};
  if (lead < 0xF0) return {2, {0x80, 0xBF}};
  if (lead == 0xF0) return {3, {0x90, 0xBF}};
  if (lead < 0xF4) return {3, {0x80, 0xBF}};
  if (lead == 0xF4) return {3, {0x80, 0x8F}};
  return kNoLeadByte;
}

}  // namespace

Utf8Front scan_utf8(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  if (lead < 0x80) return {Utf8State::kComplete, 1};
  const Followers followers = followers_of(lead);
  if (followers.count == 0) return {Utf8State::kBroken, 1};
  ByteRange range = followers.first;
  for (size_t i = 1; i <= followers.count; ++i) {
    if (i == bytes.size()) return {Utf8State::kIncomplete, i};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (byte < range.low || byte > range.high) return {Utf8State::kBroken, i};
    range = {0x80, 0xBF};
  }
  return {Utf8State::kComplete, followers.count + 1};
}

std::optional<size_t> find_invalid_utf8(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Front front = scan_utf8(bytes.substr(at));
    if (front.state != Utf8State::kComplete) return at;
    at += front.size;
  }
  return std::nullopt;
}

std::optional<std::string> utf8_fault(std::string_view text) {
  const std::optional<size_t> offset = find_invalid_utf8(text);
  if (!offset) return std::nullopt;
  return fmt::format("the text is not valid UTF-8: byte 0x{:02x} at offset {}",
                     static_cast<unsigned char>(text[*offset]), *offset);
}

char32_t first_code_point(std::string_view text) {
  utf8proc_int32_t code_point = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &code_point);
  return static_cast<char32_t>(code_point);
}

char32_t last_code_point(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return first_code_point(text.substr(at));
}

void append_utf8(char32_t code_point, std::string& text) {
  utf8proc_uint8_t bytes[4];
  const utf8proc_ssize_t size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

}  // namespace mkrt
