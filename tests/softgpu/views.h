// A view is what lanes see of memory, and some operations let them see more (PTX ISA, "Memory Consistency
// Model").
//
// Stores to global memory go into their CTA's buffer. They reach memory at random, or when a lane that knows
// of them releases. Loads may show what was there before the lane's view. An acquire moves the view to now.
// Barriers and mbarriers join what their threads know. Shared memory has no such delays.
#pragma once

#include "tests/softgpu/machine.h"

namespace softgpu {

// Joins the views of a warp's lanes, or of the warps at a barrier.
void join_warp(Warp& w, uint32_t lanes);
void join_barrier(const std::vector<Warp*>& warps);
// Returns what a lane knows when it tells others of it. The stores of its warp's other lanes are taken for
// known.
Seen known_to(const Warp& w, uint32_t lane);

void acquire_memory(Warp& w, uint32_t lanes, Scope scope);
void release_memory(Warp& w, uint32_t lane, Scope scope);
// Gives memory the CTA's stores to these bytes.
void drain_bytes(Cta& cta, uint64_t address, uint32_t bytes);
// Gives memory some stores, chosen at random.
void drain_some(Cta& cta);

// Reads up to 16 bytes as a lane with this view may see them.
void read_memory(Cta& cta, uint32_t view, uint64_t address, uint32_t bytes, uint8_t* out);
// Reads as a relaxed load does: never older values than the CTA has seen there.
void read_coherent(Cta& cta, uint32_t view, uint64_t address, uint32_t bytes, uint8_t* out);

}  // namespace softgpu
