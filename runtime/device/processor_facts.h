// The system reports these facts about this machine's processor and memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mkrt {

struct ProcessorFacts {
  std::string name;                    // "AMD EPYC 9654 96-Core Processor"
  std::string model;                   // vendor, family, model and stepping: "AuthenticAMD-25-17-1"
  std::vector<std::string> supported;  // instruction sets that mkc's code uses: "avx2", "avx512bf16", …
  std::string target;                  // processor_target()
  std::vector<int> processors;         // usable_processors(), in ascending order
  uint32_t cores = 0;                  // cores that these belong to
  uint64_t memory_bytes = 0;           // of the machine
  uint64_t core_cache_bytes = 0;       // largest cache that a core has for itself
  uint64_t last_cache_bytes = 0;       // last-level caches of these processors together; 0: not known
};

ProcessorFacts ask_processor();

// Returns ascending numbers as ranges: "0-3,8".
std::string ranges_text(const std::vector<int>& numbers);

}  // namespace mkrt
