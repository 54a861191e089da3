// Task bodies are written in these primitives. A target supplies them: codegen/device/nvptx.ll for GPUs, host
// functions of runtime/emulator/ for the CPU. Bodies synchronise through these primitives alone.
//
// AS1 is global memory, AS3 the shared memory of a worker. Comments beside primitives name their GPU
// instructions.
#pragma once

#include "runtime/abi/abi.h"

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
// These primitives give thread, worker, shared memory and time.
u32 mk_thread() noexcept;        // tid.x, 0 .. kWorkerThreads - 1
u32 mk_worker() noexcept;        // ctaid.x
AS3 char* mk_shared() noexcept;  // dynamic shared memory, 1024-byte aligned
u64 mk_time_ns() noexcept;       // globaltimer

// Collectives. mk_barrier() is named barrier `id` (0..15) of `threads` threads (barrier.cta.sync), and orders
// memory of the worker.
MK_CONVERGENT void mk_barrier(u32 id, u32 threads) noexcept;
MK_CONVERGENT void mk_warp_sync() noexcept;  // bar.warp.sync, all 32 lanes, orders memory of the warp
MK_CONVERGENT f32 mk_shuffle_xor(f32 v, u32 mask) noexcept;  // shfl.sync.bfly
MK_CONVERGENT f32
mk_warp_sum(f32 v) noexcept;  // butterfly 16, 8, 4, 2, 1: v = v + v(lane ^ mask); all lanes get the sum
MK_CONVERGENT f32 mk_warp_max(f32 v) noexcept;    // butterfly as in mk_warp_sum, maximum
MK_CONVERGENT bool mk_warp_any(bool v) noexcept;  // vote.sync.any: whether v is true in some lane
MK_CONVERGENT f32 mk_quad_sum(f32 v) noexcept;    // butterfly 2, 1 within 4 neighbouring lanes
// mk_mma_*() compute d += a * b: m16n8k16, row.col, f32 accumulators, fragments as in the PTX ISA. d points
// to 4 floats.
MK_CONVERGENT void mk_mma_bf16(f32* d, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) noexcept;
MK_CONVERGENT void mk_mma_f16(f32* d, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) noexcept;
// mk_mma_e4m3() is m16n8k32 of 8-bit floats. Targets without the instruction lack it (sm_80, sm_86).
MK_CONVERGENT void mk_mma_e4m3(f32* d, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) noexcept;
// mk_wgmma_*() begin d += a * b, four steps of m64n64k16 (wgmma, sm_90a alone). A warpgroup calls them: 4
// warps from a multiple of 4 on. `d` is 32 floats, and `a` is 4 words for each step, as the PTX ISA lays them
// out in registers. `b` is 64 columns of 128 bytes, 1024-byte aligned in shared memory. The 16-byte chunk i
// of a column lies at i ^ column % 8. The async proxy reads `b`. Neither `d` nor `b` may be touched before
// the wait for `d`.
MK_CONVERGENT void mk_wgmma_bf16(f32* d, const u32* a, AS3 const void* b) noexcept;
MK_CONVERGENT void mk_wgmma_f16(f32* d, const u32* a, AS3 const void* b) noexcept;
// mk_wgmma_e4m3() has two steps of m64n64k32 in place of the four. `b` has the codes of a column in the first
// 64 of its 128 bytes.
MK_CONVERGENT void mk_wgmma_e4m3(f32* d, const u32* a, AS3 const void* b) noexcept;
MK_CONVERGENT void mk_wgmma_wait(f32* d) noexcept;  // waits for all that the warpgroup has begun

// Barriers in shared memory (mbarrier), and copies that complete on them.
void mk_mbar_init(AS3 u64* bar, u32 arrivals) noexcept;
void mk_fence_mbar_init() noexcept;  // makes initialised barriers visible to the copy engine (async proxy)
void mk_mbar_arrive(AS3 u64* bar) noexcept;             // release, worker scope
void mk_mbar_expect(AS3 u64* bar, u32 bytes) noexcept;  // arrive and expect `bytes` more
// mk_mbar_try_wait() is true once the phase of the given parity has completed (acquire, worker scope). The
// call may suspend the thread for a bounded time.
bool mk_mbar_try_wait(AS3 u64* bar, u32 parity) noexcept;
// mk_mbar_test() tests a phase at once, without acquiring.
bool mk_mbar_test(AS3 u64* bar, u32 parity) noexcept;
// mk_bulk_load() is cp.async.bulk global -> shared, which completes `bytes` on bar (async proxy; sm_90 on).
// Addresses are 16-byte aligned, and bytes is a multiple of 16. `policy` comes from mk_l2_policy().
void mk_bulk_load(AS3 void* dst, AS1 const void* src, u32 bytes, AS3 u64* bar, u64 policy) noexcept;
// mk_l2_policy() says what L2 does with the lines of a copy (createpolicy.fractional). Lines that pass once
// are evicted first.
u64 mk_l2_policy(bool once) noexcept;
// mk_async_load16() is cp.async of 16 bytes (sm_80 on). mk_async_arrive() counts one more arrival on bar,
// made once this thread's earlier copies are complete.
void mk_async_load16(AS3 void* dst, AS1 const void* src) noexcept;
void mk_async_arrive(AS3 u64* bar) noexcept;
// mk_fence_proxy_async() orders generic-proxy writes to shared memory before later async-proxy accesses of
// it.
void mk_fence_proxy_async() noexcept;

// Counters lie in global memory and have GPU scope.
u32 mk_load_acquire(AS1 const u32* p) noexcept;
u32 mk_load_relaxed(AS1 const u32* p) noexcept;
// mk_fence_release() makes each later mk_red_relaxed of this thread publish all that the thread knows so far.
void mk_fence_release() noexcept;
void mk_red_relaxed(AS1 u32* p, u32 n) noexcept;                     // adds n
u32 mk_add_acq_rel(AS1 u32* p, u32 n) noexcept;                      // atom.acq_rel, returns the value before
u32 mk_add_relaxed(AS1 u32* p, u32 n) noexcept;                      // atom.relaxed, returns the value before
u32 mk_cas_relaxed(AS1 u32* p, u32 expected, u32 desired) noexcept;  // returns the value before
void mk_store_release(AS1 u32* p, u32 v) noexcept;
// mk_pause() is called between two polls of *p that found it below `want`. The GPU form is nanosleep. The
// emulator lets others run.
void mk_pause(AS1 const u32* p, u32 want) noexcept;

// mk_take_registers() and mk_leave_registers() set the registers of a warpgroup's threads (setmaxnreg, sm_90a
// alone). All threads of the warpgroup call them together. A take allows up to 200 registers, once others
// have left theirs; a leave allows 104.
MK_CONVERGENT void mk_take_registers() noexcept;
MK_CONVERGENT void mk_leave_registers() noexcept;

// Kernels of one stream that are launched to overlap (PTX ISA, griddepcontrol; sm_90 on). Kernels never
// overlap before sm_90.
void mk_start_next() noexcept;     // the next kernel may begin once every worker has called this
void mk_await_kernels() noexcept;  // returns once all kernels before have ended; their writes are visible

// mk_low_halves() joins the lower halves of two words, mk_high_halves() the upper ones. The half of a is the
// lower one of the result.
u32 mk_low_halves(u32 a, u32 b) noexcept;
u32 mk_high_halves(u32 a, u32 b) noexcept;

// Arithmetic whose GPU form is an instruction. The relative error is 2^-22 or better.
f32 mk_rsqrt(f32 x) noexcept;
f32 mk_rcp(f32 x) noexcept;
f32 mk_exp2(f32 x) noexcept;
u32 mk_pack_bf16(f32 lo, f32 hi) noexcept;  // two round-to-nearest-even conversions, lo in the low half
u32 mk_pack_f16(f32 lo, f32 hi) noexcept;
f32 mk_f16_to_f32(u32 half_bits) noexcept;  // takes the low 16 bits
// mk_fma_bf16x2() is a * b + c for both halves, rounded once to nearest even (sm_80 on).
u32 mk_fma_bf16x2(u32 a, u32 b, u32 c) noexcept;
// mk_max_abs_bf16x2() is the greater magnitude for both halves. A NaN loses to a number. The sign of a result
// is the exclusive or of both signs (sm_86 on).
u32 mk_max_abs_bf16x2(u32 a, u32 b) noexcept;

// mk_pack_e4m3() gives two 8-bit floats in the low half of a word, lo in its low byte. Rounding is to nearest
// even; values beyond 448 become 448, NaN becomes 0x7f. mk_unpack_e4m3() gives two f16, which hold the values
// exactly.
u32 mk_pack_e4m3(f32 lo, f32 hi) noexcept;
u32 mk_unpack_e4m3(u32 codes) noexcept;
// mk_codes_e4m3() gives four 8-bit floats, a in the lowest byte. It rounds as mk_pack_e4m3() does, but a NaN
// may have either sign. Targets without mk_mma_e4m3() lack it, too.
u32 mk_codes_e4m3(f32 a, f32 b, f32 c, f32 d) noexcept;

// mk_tracing() tells whether the kernel stamps a trace. Its value is known before optimisation, so other
// kernels contain no trace code.
bool mk_tracing() noexcept;
u64 mk_stamp_time() noexcept;  // globaltimer; on the emulator the number of calls in the launch so far
// mk_task_begin() and mk_task_end() name what runs now, for faults found by the emulator. A GPU does nothing
// here.
void mk_task_begin(u32 grid, u32 task) noexcept;
void mk_task_end(u32 grid, u32 first, u32 count) noexcept;  // tasks [first, first + count) were run together
// mk_task_ready() is called by all consumer threads, between the waits and the work of tasks that a body
// takes together. A GPU does nothing here.
void mk_task_ready(u32 grid, u32 task, u32 tasks) noexcept;
// mk_load_begin() and mk_load_end() enclose what the loader brings for tasks [first, first + tasks). All
// loader threads call them. A GPU does nothing here.
void mk_load_begin(u32 grid, u32 first, u32 tasks) noexcept;
void mk_load_end() noexcept;

// mk_spoil() takes memory of the worker that nobody reads before it is written again. The emulator fills it
// with NaN and wild integers; a GPU does nothing. All consumer threads call mk_spoil(), and the first to come
// fills the memory. A barrier must lie between them and the last readers.
void mk_spoil(AS3 char* p, u32 bytes) noexcept;
// mk_spoil_last() is called by one lane of each consumer warp behind the warp's last read. The last caller
// fills the memory.
void mk_spoil_last(AS3 char* p, u32 bytes) noexcept;
}
