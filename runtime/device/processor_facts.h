// The system reports these facts about this machine's processor and memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/container_limits.h"

namespace mkrt {

struct ProcessorFacts {
  std::string name;                     // "AMD EPYC 9654 96-Core Processor"
  std::string model;                    // vendor, family, model and stepping: "AuthenticAMD-25-17-1"
  std::vector<std::string> supported;   // instruction sets that mkc's code uses: "avx2", "avx512bf16", …
  std::string target;                   // processor_target()
  std::vector<int> processors;          // usable_processors(), in ascending order
  uint32_t cores = 0;                   // cores that these belong to
  uint32_t threads = 0;                 // usable_threads(): one a processor, or fewer in a container
  ContainerLimits limits;               // those of this process's container
  uint64_t memory_bytes = 0;            // of the machine, or the container's limit
  uint64_t machine_bytes = 0;           // memory of the machine, whatever the limits
  uint64_t core_cache_bytes = 0;        // largest cache that a core has for itself; 0: not known
  uint64_t last_cache_bytes = 0;        // last-level caches of these processors together; 0: not known
  uint64_t min_last_cache_bytes = 0;    // the smallest last-level cache
  uint64_t last_cache_share_bytes = 0;  // least share of a thread in the last-level cache that it is in
};

// Asks the processor, and the files of the system below a root folder.
ProcessorFacts ask_processor(const std::string& root = "");

// Returns the processors of the facts as ranges. A container's limit of threads is told: "0-7 by 2 threads".
std::string processors_text(const ProcessorFacts& facts);

// Returns ascending numbers as ranges: "0-3,8".
std::string ranges_text(const std::vector<int>& numbers);

}  // namespace mkrt
