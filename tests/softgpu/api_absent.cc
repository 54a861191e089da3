// Functions that libraries of other programs need to load. The software GPU has none of them.
#include "tests/softgpu/api.h"

namespace {

constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED

}  // namespace

SOFTGPU_API cuGetProcAddress_v2() {
  return kNotSupported;
}
SOFTGPU_API cuPointerGetAttribute() {
  return kNotSupported;
}
SOFTGPU_API cuTensorMapEncodeTiled() {
  return kNotSupported;
}
