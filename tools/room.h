// Weights and caches must fit in a memory.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/device/container_limits.h"
#include "runtime/device/device.h"

namespace mkc {

// Returns a fault such as "139 GB of weights do not fit in the 80 GB of h100". Returns "" if the bytes fit,
// and if memory_bytes is 0, which means unknown.
std::string why_no_room(uint64_t bytes, const std::string& what, uint64_t memory_bytes,
                        const std::string& of);

// RoomNeeded is what one memory holds for a model. Units: bytes, but for the number of pages.
struct RoomNeeded {
  uint64_t weights = 0, workspace = 0, page = 0;
  uint32_t pages = 0;
  bool keeps_weights = false;  // a file keeps the weights, where the device is the processor
};

// Returns a fault as why_no_room() does, where a model does not fit on a device. Memory of the processor and
// of the emulator is that of this process, and has the limit of its container, too. Weights that a file keeps
// do not count there: they are pages of the file, which the system takes back where others need room.
std::string why_no_room_on(const mkrt::Device& device, const RoomNeeded& needed,
                           const mkrt::ContainerLimits& limits);

}  // namespace mkc
