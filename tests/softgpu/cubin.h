// What the software GPU takes from a cubin: its PTX, if tests/softgpu/ptxas made it, and registers of its
// kernels.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace softgpu {

// Type of the section that holds the PTX, in the range that ELF leaves to processors' own uses.
constexpr uint32_t kPtxSection = 0x70505458;

struct CubinParts {
  std::string ptx;                            // "": it has none
  std::map<std::string, uint32_t> registers;  // of a thread, by kernel
};

bool is_elf(const void* image);
CubinParts read_cubin(const void* image);

}  // namespace softgpu
