// The builder of level 1, the op graph, from a resolved request.
#pragma once

#include <span>

#include "frontend/checkpoint.h"
#include "frontend/request.h"
#include "ir/ops.h"

namespace mkc {

// Returns the ops of one step, in the family's order, with the layers unrolled. Tensors of layer n are named
// "ln.NAME". Errors: those of Checkpoint, and family files whose ops do not fit together.
//
// Symbols: T and R in [1, max_tokens], B in [1, max_requests]. List symbols, one value for each request:
// q_len in [1, min(max_tokens, context)], kv_len in [1, context], first_row. Inputs: tokens[T], positions[T].
//
// `tensors` are those of the whole checkpoint. Each of them must be used, or declared as ignored by the
// family. With empty `tensors`, config.json alone is compiled.
Result<OpGraph> build_op_graph(const CompileRequest& request, std::span<const CheckpointTensor> tensors);

}  // namespace mkc
