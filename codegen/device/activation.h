// Activation functions are applied to f32 values in registers.
#pragma once

#include "codegen/device/worker.h"

namespace mk {

constexpr f32 kLog2E = 1.4426950408889634f;

// The formulas hold for V = f32, and for a vector of f32 with mk_rcp() and mk_exp2() of its own.

// times_sigmoid() is v times the logistic function of `by`.
template <class V>
MK_INLINE V times_sigmoid(V v, V by) {
  return v * mk_rcp(1.0f + mk_exp2(by * -kLog2E));
}
template <class V>
MK_INLINE V silu(V v) {
  return times_sigmoid(v, v);
}
// GELU with tanh (Hendrycks and Gimpel 2016): v / 2 * (1 + tanh(y)) is v * sigmoid(2 y).
template <class V>
MK_INLINE V gelu_tanh(V v) {
  const V y = 0.7978845608028654f * (v + 0.044715f * v * v * v);
  return times_sigmoid(v, 2 * y);
}
// GELU: v times the normal distribution's cumulative function. The complementary error function is formula
// 7.1.26 of Abramowitz and Stegun, with an absolute error of 1.5e-7.
template <class V>
MK_INLINE V gelu(V v) {
  const V x = __builtin_elementwise_abs(v) * 0.7071067811865476f, t = mk_rcp(1.0f + 0.3275911f * x);
  const V poly =
      t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
  const V erfc = poly * mk_exp2(x * x * -kLog2E);
  return v * (v < 0 ? 0.5f * erfc : 1.0f - 0.5f * erfc);
}
// swiglu_oai() is the gate of gpt-oss, and up_oai() the factor that the gate has beside it. A NaN stays.
constexpr f32 kOaiLimit = 7, kOaiGain = 1.702f;
template <class V>
MK_INLINE V swiglu_oai(V v) {
  const V gate = v > kOaiLimit ? kOaiLimit : v;
  return times_sigmoid(gate, kOaiGain * gate);
}
template <class V>
MK_INLINE V up_oai(V v) {
  const V below = v > kOaiLimit ? kOaiLimit : v;
  return 1.0f + (below < -kOaiLimit ? -kOaiLimit : below);
}
MK_INLINE f32 activated(Activation activation, f32 v) {
  switch (activation) {
    case Activation::kNone:
      return v;
    case Activation::kSilu:
      return silu(v);
    case Activation::kGelu:
      return gelu(v);
    case Activation::kGeluTanh:
      return gelu_tanh(v);
    case Activation::kSigmoid:
      return times_sigmoid(1.0f, v);
    case Activation::kSwigluOai:
      return swiglu_oai(v);
  }
  return v;
}
// tanh(v), within 3e-7 of its size. Near 0 the series takes the place of a difference of two equal numbers.
template <class V>
MK_INLINE V hyperbolic_tangent(V v) {
  const V square = v * v;
  return square < 0.04f
             ? v * (1.0f + square * (-1 / 3.0f + square * (2 / 15.0f + square * (-17 / 315.0f +
                                                                                 square * (62 / 2835.0f)))))
             : 2 * times_sigmoid(V(1.0f), 2 * v) - 1.0f;
}

}  // namespace mk
