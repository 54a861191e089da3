// Whether weights and caches fit in a memory.
#pragma once

#include <cstdint>
#include <string>

namespace mkc {

// "139 GB of weights do not fit in the 80 GB of h100"; "" where they do, or where the memory is 0: not known.
std::string why_no_room(uint64_t bytes, const std::string& what, uint64_t memory_bytes,
                        const std::string& of);

}  // namespace mkc
