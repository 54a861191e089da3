// Targets without instructions for 8-bit floats get these primitives.
#include "codegen/device/e4m3.h"

MK_BODY u32 mk_pack_e4m3(f32 lo, f32 hi) noexcept {
  return mk::soft_pack_e4m3(lo, hi);
}
MK_BODY u32 mk_unpack_e4m3(u32 codes) noexcept {
  return mk::soft_unpack_e4m3(codes);
}
