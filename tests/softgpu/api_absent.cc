// Libraries of other programs need these functions to load. The software GPU has none of them.
#include "tests/softgpu/api.h"

SOFTGPU_API cuGetProcAddress_v2() {
  return softgpu::kNotSupported;
}
SOFTGPU_API cuPointerGetAttribute() {
  return softgpu::kNotSupported;
}
SOFTGPU_API cuTensorMapEncodeTiled() {
  return softgpu::kNotSupported;
}
