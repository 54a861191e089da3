// The primitives task bodies are written in. A target supplies them: codegen/device/nvptx.ll for GPUs, host
// functions of runtime/emulator/ for the CPU. Bodies synchronise through these alone.
//
// Memory: AS1 is global, AS3 a worker's shared memory. Each line says what it is on the GPU.
#pragma once

#include "runtime/abi.h"

#define AS1 __attribute__((address_space(1)))
#define AS3 __attribute__((address_space(3)))
#define MK_CONVERGENT __attribute__((convergent))

typedef uint32_t u32;
typedef uint64_t u64;
typedef float f32;
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));

extern "C" {
// Who and where.
u32 mk_thread() noexcept;        // tid.x, 0 .. kWorkerThreads - 1
u32 mk_worker() noexcept;        // ctaid.x
AS3 char* mk_shared() noexcept;  // dynamic shared memory, 1024-byte aligned
u64 mk_time_ns() noexcept;       // globaltimer

// Collectives. mk_barrier: named barrier `id` (0..15) of `threads` threads (barrier.cta.sync), orders memory
// of the worker.
MK_CONVERGENT void mk_barrier(u32 id, u32 threads) noexcept;
MK_CONVERGENT void mk_warp_sync() noexcept;  // bar.warp.sync, all 32 lanes, orders memory of the warp
MK_CONVERGENT f32 mk_shuffle_xor(f32 v, u32 mask) noexcept;  // shfl.sync.bfly
MK_CONVERGENT f32
mk_warp_sum(f32 v) noexcept;  // butterfly 16, 8, 4, 2, 1: v = v + v(lane ^ mask); all lanes get the sum
MK_CONVERGENT f32 mk_warp_max(f32 v) noexcept;    // likewise, maximum
MK_CONVERGENT bool mk_warp_any(bool v) noexcept;  // vote.sync.any: whether it is true of some lane
MK_CONVERGENT f32 mk_quad_sum(f32 v) noexcept;    // butterfly 2, 1 within 4 neighbouring lanes
// d += a * b, m16n8k16, row.col, f32 accumulators; fragments as in the PTX ISA. d points to 4 floats.
MK_CONVERGENT void mk_mma_bf16(f32* d, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) noexcept;
MK_CONVERGENT void mk_mma_f16(f32* d, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) noexcept;
// By a warpgroup, 4 warps from a multiple of 4 on: begins d += a * b, four steps of m64n64k16. d: 32 floats,
// a: 4 words for each step, as the PTX ISA lays them out in registers. b, 1024-byte aligned in shared memory:
// 64 columns of 128 bytes, in which 16-byte piece i lies at i ^ column % 8; read by the async proxy. Neither
// d nor b may be touched before the wait for d. wgmma, sm_90a alone.
MK_CONVERGENT void mk_wgmma_bf16(f32* d, const u32* a, AS3 const void* b) noexcept;
MK_CONVERGENT void mk_wgmma_f16(f32* d, const u32* a, AS3 const void* b) noexcept;
MK_CONVERGENT void mk_wgmma_wait(f32* d) noexcept;  // for all that the warpgroup has begun

// Barriers in shared memory (mbarrier) and copies that complete on them.
void mk_mbar_init(AS3 u64* bar, u32 arrivals) noexcept;
void mk_fence_mbar_init() noexcept;  // makes initialised barriers visible to the copy engine (async proxy)
void mk_mbar_arrive(AS3 u64* bar) noexcept;             // release, worker scope
void mk_mbar_expect(AS3 u64* bar, u32 bytes) noexcept;  // arrive and expect `bytes` more
// True once the phase of the given parity has completed (acquire, worker scope); may suspend for a bounded
// time.
bool mk_mbar_try_wait(AS3 u64* bar, u32 parity) noexcept;
// The same at once, and without acquiring.
bool mk_mbar_test(AS3 u64* bar, u32 parity) noexcept;
// cp.async.bulk global -> shared, completes `bytes` on bar (async proxy). 16-byte aligned, bytes a multiple
// of 16. sm_90 on.
// `policy`: of mk_l2_policy().
void mk_bulk_load(AS3 void* dst, AS1 const void* src, u32 bytes, AS3 u64* bar, u64 policy) noexcept;
// What L2 does with the lines of a copy (createpolicy.fractional): those that pass once are evicted first.
u64 mk_l2_policy(bool once) noexcept;
// cp.async of 16 bytes, and: count one more arrival on bar, made once this thread's earlier ones are
// complete. sm_80 on.
void mk_async_load16(AS3 void* dst, AS1 const void* src) noexcept;
void mk_async_arrive(AS3 u64* bar) noexcept;
// Orders generic-proxy writes to shared memory before later async-proxy accesses of it.
void mk_fence_proxy_async() noexcept;

// Counters in global memory (GPU scope).
u32 mk_load_acquire(AS1 const u32* p) noexcept;
u32 mk_load_relaxed(AS1 const u32* p) noexcept;
// What this thread knows so far is passed on by its mk_red_relaxed from now on.
void mk_fence_release() noexcept;
void mk_red_relaxed(AS1 u32* p, u32 n) noexcept;                     // adds
u32 mk_add_acq_rel(AS1 u32* p, u32 n) noexcept;                      // atom.acq_rel, returns the value before
u32 mk_add_relaxed(AS1 u32* p, u32 n) noexcept;                      // atom.relaxed, returns the value before
u32 mk_cas_relaxed(AS1 u32* p, u32 expected, u32 desired) noexcept;  // returns the value before
void mk_store_release(AS1 u32* p, u32 v) noexcept;
// Called between two polls of *p that found it below `want`: nanosleep on a GPU, lets others run on the
// emulator.
void mk_pause(AS1 const u32* p, u32 want) noexcept;

// Of a warpgroup's threads, all together: up to 200 registers, once others have left them; or 104.
// setmaxnreg, sm_90a alone.
MK_CONVERGENT void mk_take_registers() noexcept;
MK_CONVERGENT void mk_leave_registers() noexcept;

// Kernels of one stream, launched to overlap (PTX ISA, griddepcontrol; sm_90 on, before that they never do).
void mk_start_next() noexcept;     // once every worker has called it, the next kernel may begin
void mk_await_kernels() noexcept;  // returns once those before have ended; what they wrote is seen

// The lower halves of two words, or their upper ones; a's below b's.
u32 mk_low_halves(u32 a, u32 b) noexcept;
u32 mk_high_halves(u32 a, u32 b) noexcept;

// Arithmetic whose GPU form is an instruction: relative error 2^-22 or better.
f32 mk_rsqrt(f32 x) noexcept;
f32 mk_rcp(f32 x) noexcept;
f32 mk_exp2(f32 x) noexcept;
u32 mk_pack_bf16(f32 lo, f32 hi) noexcept;  // two round-to-nearest-even conversions, lo in the low half
u32 mk_pack_f16(f32 lo, f32 hi) noexcept;
f32 mk_f16_to_f32(u32 half_bits) noexcept;  // of the low 16 bits

// Two 8-bit floats in the low half of a word, lo in its low byte: round to nearest even, beyond 448 to 448,
// NaN to 0x7f. Back: as two f16, which hold them exactly.
u32 mk_pack_e4m3(f32 lo, f32 hi) noexcept;
u32 mk_unpack_e4m3(u32 codes) noexcept;

// Whether the kernel stamps a trace: known before it is optimised, so nothing of that is left in others.
bool mk_tracing() noexcept;
u64 mk_stamp_time() noexcept;  // globaltimer; on the emulator the number of calls in the launch so far
// What runs now, for faults found by the emulator; nothing on a GPU.
void mk_task_begin(u32 grid, u32 task) noexcept;
void mk_task_end(u32 grid, u32 first, u32 count) noexcept;  // of tasks that were run together
// All consumer threads, between the waits and the work of tasks that a body takes together; nothing on a GPU.
void mk_task_ready(u32 grid, u32 task, u32 tasks) noexcept;
// All loader threads, around what they bring for tasks [first, first + tasks); nothing on a GPU.
void mk_load_begin(u32 grid, u32 first, u32 tasks) noexcept;
void mk_load_end() noexcept;

// Memory of the worker that nobody reads any more before it is written: on the emulator it then holds NaN and
// wild integers, nothing happens on a GPU. By all consumer threads, of which the first to come does it, where
// a barrier lies between them and the last readers.
void mk_spoil(AS3 char* p, u32 bytes) noexcept;
// By one lane of each consumer warp behind its last read, the last of which does it.
void mk_spoil_last(AS3 char* p, u32 bytes) noexcept;
}
