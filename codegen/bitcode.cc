#include "codegen/bitcode.h"

#include "ir/diag.h"

namespace mkc {

std::span<const unsigned char> find_bitcode(const std::string& name) {
  for (const Bitcode& file : device_bitcode())
    if (file.name == name) return file.bytes;
  MKC_BUG("no embedded bitcode " + name);
}

}  // namespace mkc
