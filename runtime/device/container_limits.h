// The control groups of a container bound the memory and the processor time of a process.
#pragma once

#include <cstdint>
#include <string>

namespace mkrt {

// ContainerLimits are the smallest limits of the process's control group and of those around it.
struct ContainerLimits {
  uint64_t memory_bytes = 0;    // 0: no limit
  std::string memory_file;      // file that holds the limit
  double processors = 0;        // processor time per time; 0: no limit
  std::string processors_file;  // file that holds the limit
};

// Reads the control groups, of version 1 and 2, below a root folder. Files that are missing, no regular
// files, or of another form set no limit.
ContainerLimits container_limits(const std::string& root = "");

// Tells whether a limit is less time than a number of processors has.
bool has_quota(uint32_t processors, const ContainerLimits& limits);
// Returns the threads that a number of processors and a limit are for, at least 1. A limit is rounded up.
uint32_t threads_within(uint32_t processors, const ContainerLimits& limits);
// Returns the threads that this process should run at most.
uint32_t usable_threads();

// Returns the memory of the machine, or the limit where that is smaller. 0: not known.
uint64_t memory_within(const ContainerLimits& limits);

}  // namespace mkrt
