// A task of a row grid does these steps to each element of its rows, one after another.
#pragma once

#include <stdint.h>

#include "runtime/abi/packing.h"

namespace mkrt {

// A step maps an element v to a value. `operand` is the element of the step's operand at the same place.
// `value` is the step's constant. The operands of a grid's steps are numbered in their order.
// Numbers below kAdd are those of Activation: v becomes its activation.
enum class RowStep : uint32_t {
  kNone,      // there is no step
  kAdd = 16,  // v + operand
  kMul,       // v * operand
  kScale,     // v * value
  kMin,       // min(v, value)
  kMax,       // max(v, value)
  kSoftCap,   // value * tanh(v / value)
  kMulOai,    // v * (min(max(operand, -7), 7) + 1), which follows kSwigluOai
};
constexpr RowStep step_of(Activation activation) {
  return static_cast<RowStep>(activation);
}
constexpr bool is_activation(RowStep step) {
  return step != RowStep::kNone && step <= step_of(kLastActivation);
}
constexpr bool is_known(RowStep step) {
  return is_activation(step) || (step >= RowStep::kAdd && step <= RowStep::kMulOai);
}
constexpr bool has_operand(RowStep step) {
  return step == RowStep::kAdd || step == RowStep::kMul || step == RowStep::kMulOai;
}
constexpr bool has_value(RowStep step) {
  return step >= RowStep::kScale && step != RowStep::kMulOai;
}

// kMaxRowSteps is the most steps of a grid, kMaxRowOperands the most of them that have an operand.
constexpr uint32_t kMaxRowSteps = 4;
constexpr uint32_t kMaxRowOperands = 2;

}  // namespace mkrt
