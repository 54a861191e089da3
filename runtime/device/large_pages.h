// The process maps its memory by pages of several sizes.
#pragma once

#include <cstdint>

namespace mkrt {

// Returns how many bytes of the file mapping that begins at `at` the process has mapped in large pages. Pages
// that were not touched yet do not count. Returns 0 where the system does not say.
uint64_t large_page_bytes(const void* at);

}  // namespace mkrt
