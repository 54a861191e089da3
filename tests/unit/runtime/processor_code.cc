// This shared object has the symbols of a kernel for the processor. Each worker writes its number behind
// MKC_ANSWER, and mk_pack() does the same.
#include <cstdint>

#include "runtime/abi/abi.h"

extern "C" {

__attribute__((visibility("default"))) void mk_kernel(uint32_t* out, const void*, const mkrt::MkThread* of) {
  out[of->worker] = MKC_ANSWER + of->worker;
}

#ifndef MKC_WITHOUT_PACK
__attribute__((visibility("default"))) void mk_pack(uint32_t* out, uint32_t part, uint32_t parts) {
  out[part] = MKC_ANSWER + parts;
}
#endif
}
