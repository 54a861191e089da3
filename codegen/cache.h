// Assembled kernels, kept by what they were made from.
#pragma once

#include <optional>
#include <string>

#include "codegen/assembler.h"

namespace mkc {

// A folder of cubins. Safe for several processes at once: entries are written whole, and what is damaged
// counts as absent.
struct Cache {
  std::string folder;  // empty: nothing is kept or found
  uint64_t most_bytes = uint64_t{256} << 20;
};

// $MKC_CACHE, or mkc under $XDG_CACHE_HOME or ~/.cache. MKC_CACHE=off: none.
Cache default_cache();

std::string cache_key(const std::string& ptx, const Target& target, const Assembler& assembler);
std::optional<Cubin> find_cached(const Cache& cache, const std::string& key);

// Keeps a cubin, then removes the least recently used ones beyond most_bytes. That a cubin cannot be kept is
// no error.
void keep_cached(const Cache& cache, const std::string& key, const Cubin& cubin);

}  // namespace mkc
