// The task bodies and primitives of codegen/device/, compiled to LLVM bitcode when mkc was built.
#pragma once

#include <span>

namespace mkc {

struct Bitcode {
  const char* name;  // of the source, without its extension: "product", "nvptx_sm90"
  std::span<const unsigned char> bytes;
};

std::span<const Bitcode> device_bitcode();

}  // namespace mkc
