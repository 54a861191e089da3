#include "runtime/base/npy.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "runtime/base/file.h"

namespace mkrt {

Status write_npy(const std::string& path, std::span<const float> values, uint64_t cols) {
  // The prefix is magic, version and length of the header. The data begins at a multiple of kAlignment bytes.
  constexpr size_t kPrefix = 10, kAlignment = 64;
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                                   values.size() / cols, cols);
  header.resize((kPrefix + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment - kPrefix - 1, ' ');
  header += '\n';
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size() % 256);
  text += static_cast<char>(header.size() / 256);
  text += header;
  std::vector<std::byte> bytes(text.size() + values.size_bytes());
  std::memcpy(bytes.data(), text.data(), text.size());
  if (!values.empty()) std::memcpy(bytes.data() + text.size(), values.data(), values.size_bytes());
  return write_file(path, bytes);
}

}  // namespace mkrt
