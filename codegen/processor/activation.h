// Activations are computed for all lanes of a vector at once.
#pragma once

#include "codegen/processor/vector.h"

namespace mk {

using ::mk_exp2, ::mk_rcp;

MK_INLINE f32x16 mk_rcp(f32x16 v) {
  return 1.0f / v;
}
MK_INLINE f32x16 mk_exp2(f32x16 v) {
  return exp2_of<f32x16, u32x16>(v);
}
MK_INLINE f32x8 mk_rcp(f32x8 v) {
  return 1.0f / v;
}
MK_INLINE f32x8 mk_exp2(f32x8 v) {
  return exp2_of<f32x8, u32x8>(v);
}

}  // namespace mk

#include "codegen/device/activation.h"

namespace mk {

// activated_lanes() is activated() of each lane. A constant `possible` has the bit of each activation that
// may come, so that the code of the others is left out.
template <class V>
MK_INLINE V activated_lanes(Activation activation, V v, u32 possible = ~0u) {
  const auto is = [&](Activation other) { return (possible >> (u32)other & 1) != 0 && activation == other; };
  if (is(Activation::kSilu)) return silu(v);
  if (is(Activation::kSigmoid)) return times_sigmoid(V(1), v);
  if (is(Activation::kGelu)) return gelu(v);
  if (is(Activation::kSwigluOai)) return swiglu_oai(v);
  if (is(Activation::kGeluTanh)) return gelu_tanh(v);
  return v;
}

}  // namespace mk
