#include "tools/room.h"

#include <fmt/format.h>

#include "runtime/base/counted.h"

namespace mkc {
namespace {

// Returns a size in GB of 10^9 bytes, with one decimal below 10 GB.
std::string gigabytes(uint64_t bytes) {
  const double gb = static_cast<double>(bytes) / 1e9;
  return gb < 9.95 ? fmt::format("{:.1f} GB", gb) : fmt::format("{:.0f} GB", gb);
}

}  // namespace

std::string why_no_room(uint64_t bytes, const std::string& what, uint64_t memory_bytes,
                        const std::string& of) {
  if (memory_bytes == 0 || bytes <= memory_bytes) return "";
  return fmt::format("{} of {} do not fit in the {} of {}", gigabytes(bytes), what, gigabytes(memory_bytes),
                     of);
}

namespace {

// Returns a fault as why_no_room() does, such as "141 GB of weights and 4096 pages of the cache do not fit in
// the 80 GB of h100".
std::string why_no_pages(const RoomNeeded& needed, uint64_t memory_bytes, const std::string& of) {
  const uint64_t bytes = needed.weights + needed.workspace + needed.pages * needed.page;
  return why_no_room(bytes, fmt::format("weights and {} of the cache", mkrt::counted(needed.pages, "page")),
                     memory_bytes, of);
}

}  // namespace

std::string why_no_room_on(const mkrt::Device& device, const RoomNeeded& needed,
                           const mkrt::ContainerLimits& limits) {
  const auto fault_of = [](const RoomNeeded& n, uint64_t memory_bytes, const std::string& of) {
    return n.pages == 0 ? why_no_room(n.weights, "weights", memory_bytes, of)
                        : why_no_pages(n, memory_bytes, of);
  };
  std::string fault = fault_of(needed, device.memory_bytes(), device.name());
  if (!fault.empty()) return fault;
  if (device.name() != "cpu" && device.name() != "emulator") return "";
  if (device.name() == "emulator" || !needed.keeps_weights)
    return fault_of(needed, limits.memory_bytes, limits.memory_file);
  return why_no_room(needed.workspace + needed.pages * needed.page,
                     fmt::format("workspace and {} of the cache", mkrt::counted(needed.pages, "page")),
                     limits.memory_bytes, limits.memory_file);
}

}  // namespace mkc
