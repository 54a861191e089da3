// A worker of the processor is one thread, which runs the same tasks as a worker of a GPU: thread 0 of
// codegen/device/worker.h, alone. It has no loader and no ring. Task bodies read their streamed operand where
// it lies (Thread::streamed). All barriers and warps are trivial.
//
// The worker's memory (MkThread::shared) has the parts of a GPU's shared memory without stages: barriers,
// lists and scratch. Thread follows, then unpacked weights, and then the rows that products multiply.
#pragma once

#include "codegen/processor/primitives.h"

namespace mk {

constexpr u32 kNoExpert = ~0u;

// Thread is what a worker of the processor has beside Worker.
struct alignas(64) Thread {
  const char* streamed;  // the streamed operand of the task at hand
  u32 worker;
  f32 ns_per_tick;  // of the time stamp counter
  EpilogueArgs epilogue[kEpilogueDepth];
  f32 scale[kMaxTokens];  // [row]: what a product's sums lack (product.h)
  u32 expert_begin[kMaxExperts + 1];
  u32 prepared_expert;  // the active expert whose rows rows_of() has; kNoExpert at a segment's start
};
constexpr u32 kThreadOffset = kBarrierBytes + kListBytes + kScratchBytes;
constexpr u32 kUnpackedOffset = kThreadOffset + (sizeof(Thread) + 63) / 64 * 64;
constexpr u32 kUnpackedBytes = 384 * 1024;  // of product_unpacked.h and product_amx.h
constexpr u32 kSpareRows = 16;  // room behind the rows of x: the last pass may have rows that are no token's
constexpr u32 kRowsOffset = kUnpackedOffset + kUnpackedBytes;  // rows of products
static_assert(kThreadOffset % 64 == 0);

MK_INLINE Thread& thread_of(const Worker& w) {
  return *(Thread*)plain(w.shared + kThreadOffset);
}
// rows_of() is the memory for the rows of a product.
MK_INLINE char* rows_of(const Worker& w) {
  return plain(w.shared + kRowsOffset);
}
// scratch_of() is kScratchBytes bytes that a task may use up to its end, aligned to 64.
MK_INLINE char* scratch_of(const Worker& w) {
  return plain(w.scratch());
}

extern "C" void mkd_stamp_step(Worker*);

MK_INLINE u64 time_ns(const Worker& w) {
  return (u64)((double)__builtin_ia32_rdtsc() * (double)thread_of(w).ns_per_tick);
}

}  // namespace mk
