// Steps of row grids: what a task does to each element of its rows, one after another.
#pragma once

#include <stdint.h>

namespace mkrt {

// A step maps an element v to a value. `operand` is the element of the step's operand at the same place.
// `value` is the step's constant. The operands of a grid's steps are numbered in their order.
enum class RowStep : uint32_t {
  kNone,      // there is no step
  kAdd,       // v + operand
  kMul,       // v * operand
  kSilu,      // v * sigmoid(v)
  kGelu,      // v * Phi(v)
  kGeluTanh,  // Phi approximated by tanh
  kSigmoid,   // 1 / (1 + exp(-v))
  kScale,     // v * value
  kMin,       // min(v, value)
  kMax,       // max(v, value)
  kSoftCap,   // value * tanh(v / value)
};
constexpr uint32_t kRowStepKinds = 11;
constexpr bool has_operand(RowStep step) {
  return step == RowStep::kAdd || step == RowStep::kMul;
}
constexpr bool has_value(RowStep step) {
  return step >= RowStep::kScale;
}

// kMaxRowSteps is the most steps of a grid, kMaxRowOperands the most of them that have an operand.
constexpr uint32_t kMaxRowSteps = 4;
constexpr uint32_t kMaxRowOperands = 2;

}  // namespace mkrt
