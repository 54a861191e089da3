// Fusion: from the operator graph to task grids with region maps.
#pragma once

#include "ir/tasks.h"

namespace mkc {

struct FuseOptions {
  uint32_t workers = 132;  // that share the tasks of experts
  // The tokens from which on warpgroups may multiply, which add up in another order; 0: never.
  uint32_t wgmma_from = kDefaultWgmmaFrom;
};

// Requires: an op graph with the frontend's symbols. Ensures: every op is part of at least one grid; every
// activation that a grid reads is written by an earlier one; no events. First pass of the scheduler.
//
// Patterns are shapes of the graph, never names:
//   embed                                          -> embed
//   rms_norm? + linear (+ add | + gated op)        -> product; a gated op joins two linears of the same input
//   rms_norm? + linear + sample                      -> product with the best of each strip, and sample
//   rms_norm? + expert_linear (+ gated op)         -> expert; tasks of as many strips as workers can share
//   head_norm? + rope + kv_write + attention       -> attend and combine
// A norm is computed again by each product that reads it, so its result must be read by nothing else.
// Errors: an op that fits no pattern, by its place.
Result<TaskProgram> fuse(const OpGraph& graph, const FuseOptions& options = {});

// FuseOptions::wgmma_from of products that are not split yet; not 0.
void set_wgmma_from(TaskProgram& program, uint32_t wgmma_from);

}  // namespace mkc
