// The outputs of each op of ir/ops.h get types and shapes from its inputs.
#pragma once

#include <vector>

#include "ir/ops.h"
#include "ir/step_symbols.h"

namespace mkc {

struct Typed {
  DType dtype = DType::f32;
  std::vector<Expr> shape;
};

// Returns the type and shape of each output of an op, by the letters of its schema. Errors: an operand of
// another rank or size than the op takes. The message carries no place.
//
// `inputs` are in schema order; an absent optional one is left out. `caches` are the outputs of kv_write,
// which exist before the op.
Result<std::vector<Typed>> infer_outputs(const Symbols& symbols, OpKind kind,
                                         const std::vector<Tensor>& inputs, const std::vector<Tensor>& caches,
                                         const Attrs& attrs);

}  // namespace mkc
