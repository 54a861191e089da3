// A resolved request becomes level 1, the op graph.
#pragma once

#include <span>

#include "frontend/checkpoint.h"
#include "frontend/request.h"
#include "ir/ops.h"

namespace mkc {

// Returns the ops of one step, in the family's order, with the layers unrolled. Tensors of layer n are named
// "ln.NAME". Errors: those of Checkpoint, and family files whose ops do not fit together.
//
// Symbols are T and R in [1, max_tokens] and B in [1, max_requests]. Inputs are tokens[T] and positions[T].
// List symbols have one value for each request: q_len in [1, min(max_tokens, context)] and kv_len in [1,
// context]. The list first_row sums q_len.
//
// `tensors` are those of the whole checkpoint. Each of them must be used, or declared as ignored by the
// family. Empty `tensors` mean that config.json alone is compiled.
Result<OpGraph> build_op_graph(const CompileRequest& request, std::span<const CheckpointTensor> tensors);

// Fails for a tensor that the config calls a copy of another, and that differs from it. build_op_graph() has
// this check, too.
Status check_copies(const CompileRequest& request, std::span<const CheckpointTensor> tensors);

}  // namespace mkc
