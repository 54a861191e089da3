// Cubins and the emulator's machine code are kept on disk, keyed by everything that they depend on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mkc {

// Cache is a folder of compiled files. Several processes may use it at once: entries are written whole, and a
// damaged entry counts as absent.
struct Cache {
  std::string folder;  // empty: no entry is kept or found
  uint64_t max_bytes = uint64_t{256} << 20;
};

// Returns the cache at $MKC_CACHE, else at $XDG_CACHE_HOME/mkc, else at ~/.cache/mkc. MKC_CACHE=off gives a
// cache without a folder.
Cache default_cache();

struct Kept {
  std::vector<std::byte> bytes;
  std::string summary;  // text kept with the bytes
};

// Returns the entry of a file name, or nothing where there is none. The name is KEY.cubin, KEY.so or
// KEY.o, where KEY is a hash of everything that the bytes depend on. An entry that is found counts as used
// now. The name "" finds nothing.
std::optional<Kept> find_cached(const Cache& cache, const std::string& name);

// Writes an entry, then removes the least recently used entries beyond max_bytes. A failed write is no error.
// The name "" keeps nothing.
void keep_cached(const Cache& cache, const std::string& name, const Kept& kept);

}  // namespace mkc
