// Task bodies of codegen/device/ and codegen/processor/ are compiled to bitcode when mkc is built. Single
// bitcode files serve the emulator and tests. Libraries hold all bodies, simplified, with the primitives of
// one kind of GPU. A processor's library has the bodies that kernels inline; object files
// with its name have the others ("processor_v3_called"). Quick code inlines none. It calls bodies of
// "called_processor_v3" and "host_bodies" (host_bodies.h).
#pragma once

#include <span>
#include <string>
#include <vector>

namespace mkc {

struct Bitcode {
  const char* name;  // source file without its extension ("product"), or library ("hopper")
  std::span<const unsigned char> bytes;
};

// Returns all embedded bitcode files. The memory is static.
std::span<const Bitcode> device_bitcode();
// Returns the bytes of the file with this name, which has to be there.
std::span<const unsigned char> find_bitcode(const std::string& name);
// Returns the names of the files that the library "host" is made of.
std::vector<std::string> host_parts();

}  // namespace mkc
