// These kernels measure what the GPU gives at best: reads at full speed, and a signal from one worker to
// another. mkc doctor links them for the device that is there. tools/gpu/bundle compiles them to PTX for
// measure.py. No wait here is without a bound.
using u32 = unsigned;
using u64 = unsigned long long;
#define GLOBAL __attribute__((address_space(1)))
#define KERNEL extern "C" __attribute__((device_kernel))

struct alignas(16) Word4 {
  u32 x, y, z, w;
};

// Copies need an alignment of 16 bytes, barriers one of 8.
extern __attribute__((address_space(3))) char shared[] __attribute__((aligned(128)));

static u64 now_ns() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

static u32 block() {
  return __nvvm_read_ptx_sreg_ctaid_x();
}
static u32 blocks() {
  return __nvvm_read_ptx_sreg_nctaid_x();
}
static u32 thread() {
  return __nvvm_read_ptx_sreg_tid_x();
}
static u32 threads() {
  return __nvvm_read_ptx_sreg_ntid_x();
}

static u32 load_acquire(const u32 GLOBAL* at) {
  u32 value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
static void add_release(u32 GLOBAL* at) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(at) : "memory");
}

// reaches() waits until *at is `wanted` or more. The result is false after some tens of milliseconds.
static bool reaches(const u32 GLOBAL* at, u32 wanted) {
  for (u32 polls = 0; polls < 1u << 17; ++polls)
    if (load_acquire(at) >= wanted) return true;
  return false;
}

// times[2 * block()] and the word behind it are start and end of each block, in nanoseconds of the device's
// clock.
static void note(u64 GLOBAL* times, u64 begin) {
  __syncthreads();
  if (thread() != 0) return;
  times[2 * block()] = begin;
  times[2 * block() + 1] = now_ns();
}

KERNEL void empty() {}

// out[0, wanted) gets values of the device's clock as it changes. Zeros follow where the clock stands still
// for some tens of milliseconds.
KERNEL void ticks(u64 GLOBAL* out, u32 wanted) {
  u64 last = 0;
  for (u32 n = 0; n < wanted; ++n) {
    u64 now = now_ns();
    for (u32 polls = 0; now == last && polls < 1u << 20; ++polls) now = now_ns();
    out[n] = now == last ? 0 : now;
    last = now;
  }
}

// out[0] is cycles of the multiprocessor's clock, and out[1] the nanoseconds in which they passed.
KERNEL void cycles(u64 GLOBAL* out, u32 polls) {
  const u64 begin = now_ns(), first = __nvvm_read_ptx_sreg_clock64();
  u64 end = begin;
  for (u32 n = 0; n < polls; ++n) end = now_ns();
  out[0] = __nvvm_read_ptx_sreg_clock64() - first;
  out[1] = end - begin;
}

// The data have no pattern, because reads of zeros can be faster than reads of weights.
KERNEL void fill(Word4 GLOBAL* data, u64 count) {
  for (u64 i = u64{block()} * threads() + thread(); i < count; i += u64{blocks()} * threads()) {
    const u64 a = (i + 1) * 0x9e3779b97f4a7c15, b = (a ^ a >> 29) * 0xbf58476d1ce4e5b9;
    data[i] = {static_cast<u32>(a >> 7), static_cast<u32>(a >> 32), static_cast<u32>(b >> 5),
               static_cast<u32>(b >> 32)};
  }
}

// The kernel reads data[0, count) with wide loads, eight in flight for each thread.
KERNEL void read_by_loads(const Word4 GLOBAL* data, u64 count, u32 GLOBAL* sink, u64 GLOBAL* times) {
  constexpr u32 kInFlight = 8;
  const u64 begin = now_ns();
  const u64 stride = u64{blocks()} * threads();
  u32 sum = 0;
  for (u64 i = u64{block()} * threads() + thread(); i < count; i += kInFlight * stride) {
    Word4 got[kInFlight];
#pragma unroll
    for (u32 k = 0; k < kInFlight; ++k) {
      const u64 at = i + k * stride;
      asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(got[k].x), "=r"(got[k].y), "=r"(got[k].z), "=r"(got[k].w)
                   : "l"(data + (at < count ? at : i)));
    }
#pragma unroll
    for (u32 k = 0; k < kInFlight; ++k) sum ^= got[k].x ^ got[k].y ^ got[k].z ^ got[k].w;
  }
  if (sum == 0x9e3779b9) *sink = sum;  // true practically never, but the loads are needed
  note(times, begin);
}

static bool try_wait(u32 barrier, u32 parity) {
  u32 done;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}

// The kernel reads data[0, pieces * piece_bytes) with bulk copies to shared memory, as a megakernel's loader
// does. Each block has `stages` copies in flight. Shared memory is stages * (piece_bytes + 8) bytes. sink is
// set where a copy does not end.
KERNEL void read_by_copies(const char GLOBAL* data, u64 pieces, u32 piece_bytes, u32 stages, u32 GLOBAL* sink,
                           u64 GLOBAL* times) {
  const u64 begin = now_ns();
  const u32 base = static_cast<u32>(reinterpret_cast<u64>((__attribute__((address_space(3))) char*)shared));
  const u32 barriers = base + stages * piece_bytes;
  if (thread() == 0) {
    for (u32 s = 0; s < stages; ++s)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * s) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the copies see the barriers
    const u64 mine = block() < pieces ? (pieces - block() + blocks() - 1) / blocks() : 0;
    u32 stage = 0, round = 0;
    for (u64 i = 0; i < mine + stages; ++i) {
      const u32 barrier = barriers + 8 * stage, to = base + stage * piece_bytes;
      if (round > 0 && i - stages < mine) {  // the copy that used this stage last
        u32 polls = 0;
        while (!try_wait(barrier, (round - 1) & 1))
          if (++polls == 1u << 16) {
            *sink = 1;
            return;
          }
      }
      if (++stage == stages) stage = 0, ++round;
      if (i >= mine) continue;
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(piece_bytes)
                   : "memory");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
          "l"(data + (block() + i * blocks()) * piece_bytes), "r"(piece_bytes), "r"(barrier)
          : "memory");
    }
  }
  note(times, begin);
}

// Two blocks signal each other in turn, `rounds` times each. cells are two counters, 128 bytes apart, at 0.
// out[0] gets nanoseconds, and out[1] whether every signal came.
KERNEL void hop(u32 GLOBAL* cells, u32 rounds, u64 GLOBAL* out) {
  if (thread() != 0) return;
  u32 GLOBAL* mine = cells + 32 * block();
  const u32 GLOBAL* other = cells + 32 * (1 - block());
  bool all = true;
  u64 begin = 0;
  for (u32 i = 1; i <= rounds && all; ++i) {
    if (block() == 1) all = reaches(other, i);
    add_release(mine);
    if (block() == 0) all = reaches(other, i);
    if (i == 1) begin = now_ns();  // both blocks run after the first round
  }
  if (block() != 0) return;
  out[0] = now_ns() - begin;
  out[1] = all;
}

// All blocks wait for each other `rounds` times. cell is at 0. out is as in hop.
KERNEL void barrier(u32 GLOBAL* cell, u32 rounds, u64 GLOBAL* out) {
  bool all = true;
  u64 begin = 0;
  for (u32 i = 1; i <= rounds && all; ++i) {
    __syncthreads();
    if (thread() == 0) {
      add_release(cell);
      all = reaches(cell, i * blocks());
    }
    __syncthreads();
    if (i == 1) begin = now_ns();
  }
  if (block() != 0 || thread() != 0) return;
  out[0] = now_ns() - begin;
  out[1] = all;
}
