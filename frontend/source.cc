#include "frontend/source.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace mkc {
namespace {

bool is_continuation(std::string_view text, size_t i) {
  return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
}

// Returns the length of the well-formed UTF-8 sequence at `i` (Unicode 15, table 3-7), or 0.
size_t sequence_length(std::string_view text, size_t i) {
  const auto lead = static_cast<unsigned char>(text[i]);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  for (size_t k = 1; k < length; ++k) {
    if (!is_continuation(text, i + k)) return 0;
  }
  const auto second = static_cast<unsigned char>(text[i + 1]);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second > 0x9F;
  const bool too_large = lead == 0xF4 && second > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

Result<Source> read_source(const std::string& path) {
  std::error_code code;
  const std::filesystem::file_status found = std::filesystem::status(path, code);
  if (std::filesystem::is_directory(found)) return error_at({path}, "is a directory, expected a file");
  // The opening of a pipe would wait for its writer.
  if (std::filesystem::exists(found) && !std::filesystem::is_regular_file(found))
    return error_at({path}, "is not a regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return error_at({path}, fmt::format("cannot be read: {}", std::strerror(errno)));
  const auto bytes = std::filesystem::file_size(path, code);
  if (bytes > kMaxSourceBytes) {
    return error_at({path}, fmt::format("has {} bytes, at most {} are read", bytes, kMaxSourceBytes));
  }
  Source source{path, {std::istreambuf_iterator<char>(file), {}}};
  MKC_TRY_STATUS(check_text(source));
  return source;
}

Status check_text(const Source& source) {
  const std::string_view text = source.text;
  size_t length = 1;
  for (size_t i = 0; i < text.size(); i += length) {
    const char c = text[i];
    const bool control = (c >= 0 && c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F;
    length = sequence_length(text, i);
    if (length != 0 && !control) continue;
    const Place place = place_of(text, i);
    // The message shows no source line, because its bytes are at fault.
    return error_at({source.path, place.line, place.col},
                    fmt::format("byte 0x{:02x} {}", static_cast<unsigned char>(c),
                                control ? "is a control character, expected text" : "is not valid UTF-8"));
  }
  return {};
}

Error error_in(const Source& source, uint32_t line, uint32_t col, std::string_view message) {
  return error_at({source.path, line, col}, message, source.text);
}

Place place_of(std::string_view text, size_t offset) {
  Place place{1, 1};
  for (size_t i = 0; i < offset && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++place.line;
      place.col = 1;
    } else {
      ++place.col;
    }
  }
  return place;
}

}  // namespace mkc
