// A cubin holds its PTX, if tests/softgpu/ptxas made it, and the register counts of its kernels.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace softgpu {

// The section that holds the PTX has a type in the range that ELF leaves to processors.
constexpr uint32_t kPtxSection = 0x70505458;

struct CubinParts {
  std::string ptx;                            // "": the cubin has none
  std::map<std::string, uint32_t> registers;  // registers of a thread, by kernel
};

bool is_elf(const void* image);
CubinParts read_cubin(const void* image);

}  // namespace softgpu
