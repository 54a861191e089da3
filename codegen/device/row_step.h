// Steps of a row grid are applied to an element, or to a vector of elements.
#pragma once

#include "codegen/device/activation.h"
#include "runtime/abi/row_steps.h"

namespace mk {

// arithmetic_step() applies a step that is no activation, for V = f32 or a vector of f32. Other steps leave v
// as it is.
template <class V>
MK_INLINE V arithmetic_step(RowStep step, V v, V operand, f32 value) {
  const V values = V(value);
  switch (step) {
    case RowStep::kNone:
      return v;
    case RowStep::kAdd:
      return v + operand;
    case RowStep::kMul:
      return v * operand;
    case RowStep::kScale:
      return v * values;
    case RowStep::kMin:
      return v > values ? values : v;  // a NaN stays
    case RowStep::kMax:
      return v < values ? values : v;
    case RowStep::kSoftCap:
      return values * hyperbolic_tangent(v * (1 / value));
    case RowStep::kMulOai:
      return v * up_oai(operand);
  }
  return v;
}

}  // namespace mk
