#include "runtime/device/device.h"

#include <fmt/format.h>

#include <new>

namespace mkrt {

Result<std::byte*> Device::allocate_host(uint64_t bytes) {
  auto* memory = new (std::nothrow) std::byte[bytes];
  if (!memory) return Error{fmt::format("{}: error: no memory of the host for {} bytes", name(), bytes)};
  return memory;
}

void Device::release_host(std::byte* memory) {
  delete[] memory;
}

}  // namespace mkrt
