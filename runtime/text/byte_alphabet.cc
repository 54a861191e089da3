#include "runtime/text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "runtime/text/utf8.h"

namespace mkrt {
namespace {

constexpr char32_t kFirstStandIn = 0x100;

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<char32_t, 256> character_of_byte{};
  std::array<int16_t, kFirstStandIn + 256> byte_of_character{};  // -1: not of the alphabet
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte_of_character.fill(-1);
  char32_t next_stand_in = kFirstStandIn;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t character = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next_stand_in++;
    alphabet.character_of_byte[static_cast<size_t>(byte)] = character;
    alphabet.byte_of_character[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

void append_byte_alphabet(std::string_view bytes, std::string& text) {
  for (const char byte : bytes)
    append_utf8(kAlphabet.character_of_byte[static_cast<unsigned char>(byte)], text);
}

std::optional<std::string> bytes_of_alphabet(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const char32_t character = first_code_point(text);
    if (character >= kAlphabet.byte_of_character.size()) return std::nullopt;
    const int16_t byte = kAlphabet.byte_of_character[character];
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
    text.remove_prefix(scan_utf8(text).size);
  }
  return bytes;
}

}  // namespace mkrt
