#include "runtime/device/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>

namespace mkrt {

Result<uint64_t> Device::hold(const MappedFile& file, uint64_t offset) {
  const std::span<const std::byte> bytes = file.bytes.subspan(offset);
  Result<uint64_t> memory = allocate(bytes.size());
  if (!memory.ok()) return memory;
  Status status = write(memory.value(), bytes);
  if (status.ok()) status = wait_for_stream(0);
  if (status.ok()) return memory;
  release(memory.value());
  return status.error();
}

Status Device::enqueue_copy(uint64_t /*stream*/, uint64_t to, uint64_t from, uint64_t bytes) {
  std::array<std::byte, 256> piece;
  Status status;
  for (uint64_t at = 0; at < bytes && status.ok(); at += piece.size()) {
    const std::span<std::byte> part = std::span(piece).first(std::min<uint64_t>(piece.size(), bytes - at));
    status = read(part, from + at);
    if (status.ok()) status = write(to + at, part);
  }
  return status;
}

Result<std::byte*> Device::allocate_host(uint64_t bytes) {
  auto* memory = new (std::nothrow) std::byte[bytes];
  if (!memory)
    return Error{fmt::format("{}: error: no memory of the host for {} bytes", name(), bytes),
                 ErrorKind::kNoMemory};
  return memory;
}

void Device::release_host(std::byte* memory) {
  delete[] memory;
}

}  // namespace mkrt
