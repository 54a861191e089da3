// This shared object has the symbols of a kernel for the processor. Each worker writes its number behind
// MKC_ANSWER, and mk_pack() does the same.
#include <cstdint>

#include "runtime/abi/abi.h"

namespace {

// The test hands in an array of numbers in place of a session. Functions have the types of a kernel's, which
// sanitizers compare with those of the calls.
uint32_t* answers_of(const void* session) {
  return static_cast<uint32_t*>(const_cast<void*>(session));
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void mk_kernel(const mkrt::MkSession* out, const mkrt::MkStep*,
                                                      const mkrt::MkThread* of) {
  answers_of(out)[of->worker] = MKC_ANSWER + of->worker;
}

#ifndef MKC_WITHOUT_PACK
__attribute__((visibility("default"))) void mk_pack(const mkrt::MkPack* out, uint32_t part, uint32_t parts) {
  answers_of(out)[part] = MKC_ANSWER + parts;
}
#endif
}
