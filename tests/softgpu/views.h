// What lanes see of memory, and what makes them see more (PTX ISA, "Memory Consistency Model").
//
// Stores to global memory go into their CTA's buffer, from where they reach memory at random, or when a
// release by a lane that knows of them says so. Loads may show what was there before the lane's view; an
// acquire moves the view to now. Barriers and mbarriers join what their threads know. Shared memory has no
// such delays.
#pragma once

#include "tests/softgpu/machine.h"

namespace softgpu {

// Among the lanes of a warp, of warps at a barrier.
void join_warp(Warp& w, uint32_t lanes);
void join_barrier(const std::vector<Warp*>& warps);
// What a lane knows when it tells others of it.
Seen known_to(const Warp& w, uint32_t lane);

void acquire_memory(Warp& w, uint32_t lanes, Scope scope);
void release_memory(Warp& w, uint32_t lane, Scope scope);
// Stores of the CTA to these bytes reach memory.
void drain_bytes(Cta& cta, uint64_t address, uint32_t bytes);
// Some stores that nobody asked for reach memory.
void drain_some(Cta& cta);

// Up to 16 bytes as a lane with this view may see them.
void read_memory(Cta& cta, uint32_t view, uint64_t address, uint32_t bytes, uint8_t* out);
// As a relaxed load sees them: never older than what the CTA has seen there.
void read_coherent(Cta& cta, uint32_t view, uint64_t address, uint32_t bytes, uint8_t* out);

}  // namespace softgpu
