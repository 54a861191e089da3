#include "tools/room.h"

#include <fmt/format.h>

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

std::string why_no_pages(const RoomNeeded& needed, uint64_t memory_bytes, const std::string& of) {
  const uint64_t bytes = needed.weights + needed.workspace + needed.pages * needed.page;
  return why_no_room(bytes, fmt::format("weights and {} pages of the cache", needed.pages), memory_bytes, of);
}

}  // namespace mkc
