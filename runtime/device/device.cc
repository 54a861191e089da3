#include "runtime/device/device.h"

#include <fmt/format.h>

#include <new>

namespace mkrt {

Result<uint64_t> Device::hold(const MappedFile& file, uint64_t offset) {
  const std::span<const std::byte> bytes = file.bytes.subspan(offset);
  const Result<uint64_t> memory = allocate(bytes.size());
  if (!memory.ok()) return memory;
  Status status = write(memory.value(), bytes);
  if (status.ok()) status = wait_for_stream(0);
  if (status.ok()) return memory;
  release(memory.value());
  return status.error();
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
