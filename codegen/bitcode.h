// The task bodies of codegen/device/, compiled to LLVM bitcode when mkc was built: each as it is, for the
// emulator and tests, and libraries of all with the primitives of one kind of GPU, traced and not,
// simplified.
#pragma once

#include <span>

namespace mkc {

struct Bitcode {
  const char* name;  // of the source, without its extension: "product"; of the library: "hopper_untraced"
  std::span<const unsigned char> bytes;
};

std::span<const Bitcode> device_bitcode();

}  // namespace mkc
