// Cubins and the emulator's machine code, kept by what they were made from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mkc {

// A folder of what was compiled. Safe for several processes at once: entries are written whole, and what is
// damaged counts as absent.
struct Cache {
  std::string folder;  // empty: nothing is kept or found
  uint64_t max_bytes = uint64_t{256} << 20;
};

// $MKC_CACHE, or mkc under $XDG_CACHE_HOME or ~/.cache. MKC_CACHE=off: none.
Cache default_cache();

struct Kept {
  std::vector<std::byte> bytes;
  std::string summary;  // a text that goes with them
};

// `name`: of the file, KEY.cubin or KEY.o, where KEY stands for everything the bytes depend on; "": nothing
// is found.
std::optional<Kept> find_cached(const Cache& cache, const std::string& name);

// Keeps a file, then removes the least recently used ones beyond most_bytes. That it cannot be kept is no
// error; with the name "" it is not.
void keep_cached(const Cache& cache, const std::string& name, const Kept& kept);

}  // namespace mkc
