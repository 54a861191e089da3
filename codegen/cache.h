// Cubins, kept by what they were made from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mkc {

// A folder of cubins. Safe for several processes at once: entries are written whole, and what is damaged
// counts as absent.
struct Cache {
  std::string folder;  // empty: nothing is kept or found
  uint64_t most_bytes = uint64_t{256} << 20;
};

// $MKC_CACHE, or mkc under $XDG_CACHE_HOME or ~/.cache. MKC_CACHE=off: none.
Cache default_cache();

struct KeptCubin {
  std::vector<std::byte> bytes;
  std::string summary;  // what was said of it when it was made
};

// `key`: a name for everything the cubin depends on; "": nothing is found.
std::optional<KeptCubin> find_cached(const Cache& cache, const std::string& key);

// Keeps a cubin, then removes the least recently used ones beyond most_bytes. That a cubin cannot be kept is
// no error; with the key "" it is not.
void keep_cached(const Cache& cache, const std::string& key, const KeptCubin& cubin);

}  // namespace mkc
