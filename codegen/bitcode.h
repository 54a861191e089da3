// The task bodies of codegen/device/, compiled to LLVM bitcode when mkc is built. Single files serve the
// emulator and tests. Libraries hold all bodies, simplified, with the primitives of one kind of GPU, traced
// or untraced.
#pragma once

#include <span>

namespace mkc {

struct Bitcode {
  const char* name;  // source file without its extension ("product"), or library ("hopper_untraced")
  std::span<const unsigned char> bytes;
};

// Returns all embedded bitcode files. The memory is static.
std::span<const Bitcode> device_bitcode();

}  // namespace mkc
