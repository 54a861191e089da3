// The primitives of codegen/device/mk.h are host functions here, without address spaces. No code but a kernel
// that emulate() runs may call the primitives.
#pragma once

#include <cstdint>

extern "C" {
uint32_t mk_thread() noexcept;
uint32_t mk_worker() noexcept;
char* mk_shared() noexcept;
uint64_t mk_time_ns() noexcept;

void mk_barrier(uint32_t id, uint32_t threads) noexcept;
void mk_warp_sync() noexcept;
float mk_shuffle_xor(float v, uint32_t mask) noexcept;
float mk_warp_sum(float v) noexcept;
float mk_warp_max(float v) noexcept;
bool mk_warp_any(bool v) noexcept;
float mk_quad_sum(float v) noexcept;
void mk_mma_bf16(float* d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                 uint32_t b1) noexcept;
void mk_mma_f16(float* d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                uint32_t b1) noexcept;
void mk_mma_e4m3(float* d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                 uint32_t b1) noexcept;

void mk_wgmma_bf16(float* d, const uint32_t* a, const void* b) noexcept;
void mk_wgmma_f16(float* d, const uint32_t* a, const void* b) noexcept;
void mk_wgmma_e4m3(float* d, const uint32_t* a, const void* b) noexcept;
void mk_wgmma_wait(float* d) noexcept;
void mk_take_registers() noexcept;
void mk_leave_registers() noexcept;

void mk_mbar_init(uint64_t* bar, uint32_t arrivals) noexcept;
void mk_fence_mbar_init() noexcept;
void mk_mbar_arrive(uint64_t* bar) noexcept;
void mk_mbar_expect(uint64_t* bar, uint32_t bytes) noexcept;
bool mk_mbar_try_wait(uint64_t* bar, uint32_t parity) noexcept;
bool mk_mbar_test(uint64_t* bar, uint32_t parity) noexcept;
void mk_bulk_load(void* dst, const void* src, uint32_t bytes, uint64_t* bar, uint64_t policy) noexcept;
uint64_t mk_l2_policy(bool once) noexcept;
void mk_async_load16(void* dst, const void* src) noexcept;
void mk_async_arrive(uint64_t* bar) noexcept;
void mk_fence_proxy_async() noexcept;

uint32_t mk_load_acquire(const uint32_t* p) noexcept;
uint32_t mk_load_relaxed(const uint32_t* p) noexcept;
void mk_fence_release() noexcept;
void mk_red_relaxed(uint32_t* p, uint32_t n) noexcept;
uint32_t mk_add_acq_rel(uint32_t* p, uint32_t n) noexcept;
uint32_t mk_add_relaxed(uint32_t* p, uint32_t n) noexcept;
uint32_t mk_cas_relaxed(uint32_t* p, uint32_t expected, uint32_t desired) noexcept;
void mk_store_release(uint32_t* p, uint32_t v) noexcept;
void mk_pause(const uint32_t* p, uint32_t want) noexcept;

void mk_start_next() noexcept;
void mk_await_kernels() noexcept;

uint32_t mk_low_halves(uint32_t a, uint32_t b) noexcept;
uint32_t mk_high_halves(uint32_t a, uint32_t b) noexcept;
float mk_rsqrt(float x) noexcept;
float mk_rcp(float x) noexcept;
float mk_exp2(float x) noexcept;
uint32_t mk_pack_bf16(float lo, float hi) noexcept;
uint32_t mk_fma_bf16x2(uint32_t a, uint32_t b, uint32_t c) noexcept;
uint32_t mk_pack_f16(float lo, float hi) noexcept;
float mk_f16_to_f32(uint32_t half_bits) noexcept;
uint32_t mk_pack_e4m3(float lo, float hi) noexcept;
uint32_t mk_max_abs_bf16x2(uint32_t a, uint32_t b) noexcept;
uint32_t mk_codes_e4m3(float a, float b, float c, float d) noexcept;
uint32_t mk_unpack_e4m3(uint32_t codes) noexcept;

bool mk_tracing() noexcept;  // false for bodies compiled for the host; a kernel has its own
uint64_t mk_stamp_time() noexcept;
void mk_task_begin(uint32_t grid, uint32_t task) noexcept;
void mk_task_end(uint32_t grid, uint32_t first, uint32_t count) noexcept;
void mk_task_ready(uint32_t grid, uint32_t task, uint32_t tasks) noexcept;
void mk_load_begin(uint32_t grid, uint32_t first, uint32_t tasks) noexcept;
void mk_load_end() noexcept;
void mk_spoil(char* p, uint32_t bytes) noexcept;
void mk_spoil_last(char* p, uint32_t bytes) noexcept;

// The JIT puts these calls before every plain load and store of `bytes` bytes in race mode. Outside race mode
// the calls do nothing.
void mk_race_read(const void* p, uint32_t bytes, uint32_t site) noexcept;
void mk_race_write(const void* p, uint32_t bytes, uint32_t site) noexcept;
}
