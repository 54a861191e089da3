// Shape inference of the ops of ir/ops.h.
#pragma once

#include <string>
#include <vector>

#include "ir/ops.h"

namespace mkc {

struct Typed {
  DType dtype = DType::f32;
  std::vector<Expr> shape;
};

// Type and shape of each output of an op. `inputs` in schema order; an absent optional one is left out.
// `outputs` of kv_write are its caches, which exist before. Activations are f32. Errors: an operand of
// another rank or size than the op takes; the message carries no place.
Result<std::vector<Typed>> infer_outputs(OpKind kind, const std::vector<Tensor>& inputs,
                                         const std::vector<Tensor>& caches, const Attrs& attrs);

}  // namespace mkc
