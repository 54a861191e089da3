// Each kernel here uses one primitive of mk.h, for mkc doctor: probe_NAME(in, out, rounds). The host computes
// again what they must leave in `out` (tools/doctor/). A wait ends after kPolls, and `out` is wrong then.
#include "codegen/device/worker.h"

#define PROBE extern "C" __attribute__((device_kernel)) void

namespace mk {
namespace {

constexpr u32 kPolls = 1u << 14;
constexpr u32 kStages = 4;

MK_INLINE u32 bits_of(f32 v) {
  return __builtin_bit_cast(u32, v);
}
MK_INLINE u32 mixed(u32 sum, u32 word) {
  return (sum ^ word) * 0x9e3779b1u;
}
MK_INLINE bool await(AS3 u64* bar, u32 parity) {
  bool done = false;
  for (u32 i = 0; i < kPolls && !done; ++i) done = mk_mbar_try_wait(bar, parity);
  return done;
}
MK_INLINE AS3 u64* barriers(u32 offset) {
  return (AS3 u64*)(mk_shared() + offset);
}

}  // namespace
}  // namespace mk

using namespace mk;

// Collectives of a warp of 32 threads. in is a word each; out is 5 words each.
PROBE probe_lanes(AS1 const u32* in, AS1 u32* out, u32) {
  const u32 t = mk_thread();
  const f32 v = as_f32(in[t]);
  out[5 * t] = bits_of(mk_shuffle_xor(v, 5));
  out[5 * t + 1] = bits_of(mk_warp_sum(v));
  out[5 * t + 2] = bits_of(mk_warp_max(v));
  out[5 * t + 3] = bits_of(mk_quad_sum(v));
  out[5 * t + 4] = (mk_warp_any(t == 19) ? 1 : 0) | (mk_warp_any(t == 32) ? 2 : 0);
}

// in is two positive numbers for each thread; out is 8 words each.
PROBE probe_numbers(AS1 const u32* in, AS1 u32* out, u32) {
  const u32 t = mk_thread();
  const f32 a = as_f32(in[2 * t]), b = as_f32(in[2 * t + 1]);
  AS1 u32* to = out + 8 * t;
  to[0] = bits_of(mk_rsqrt(a));
  to[1] = bits_of(mk_rcp(a));
  to[2] = bits_of(mk_exp2(b));
  to[3] = mk_pack_bf16(a, b);
  to[4] = mk_pack_f16(a, b);
  to[5] = bits_of(mk_f16_to_f32(mk_pack_f16(a, b)));
  to[6] = mk_low_halves(bits_of(a), bits_of(b));
  to[7] = mk_high_halves(bits_of(a), bits_of(b));
}

// in is two numbers for each thread. out is their codes, and the f16 of the two codes that the thread's
// number has.
PROBE probe_e4m3(AS1 const u32* in, AS1 u32* out, u32) {
  const u32 t = mk_thread();
  out[2 * t] = mk_pack_e4m3(as_f32(in[2 * t]), as_f32(in[2 * t + 1]));
  out[2 * t + 1] = mk_unpack_e4m3((t & 0x7f) << 8 | (t & 0xff));
}

// Threads meet at named barriers of 128 threads each, and at one of all 256. in is a word each; out is a word
// each.
PROBE probe_barriers(AS1 const u32* in, AS1 u32* out, u32 rounds) {
  const u32 t = mk_thread(), group = t / 128;
  AS3 u32* words = (AS3 u32*)mk_shared();
  u32 sum = in[t];
  for (u32 i = 0; i < rounds; ++i) {
    words[t] = sum + i;
    mk_barrier(1 + group, 128);
    sum = mixed(sum, words[group * 128 + (t + 33) % 128]);
    mk_barrier(0, 256);
  }
  out[t] = sum;
}

// A warp hands words to another by mbarriers, two stages in turn. in is 32 words; out is 32 words.
PROBE probe_mbarrier(AS1 const u32* in, AS1 u32* out, u32 rounds) {
  const u32 t = mk_thread(), lane = t % 32;
  AS3 u64 *full = barriers(0), *empty = full + 2;
  AS3 u32* words = (AS3 u32*)(mk_shared() + 1024);
  if (t < 2) mk_mbar_init(full + t, 32), mk_mbar_init(empty + t, 32);
  mk_barrier(0, 64);
  u32 sum = in[lane];
  for (u32 i = 0; i < rounds; ++i) {
    const u32 stage_index = i % 2, turn = i / 2;
    if (t < 32) {
      if (turn > 0 && !await(empty + stage_index, (turn - 1) % 2)) return;
      words[32 * stage_index + lane] = sum * (i + 1);
      mk_mbar_arrive(full + stage_index);
    } else {
      if (!await(full + stage_index, turn % 2)) return;
      out[lane] = mixed(i == 0 ? 0 : out[lane], words[32 * stage_index + (lane ^ 9)]);
      mk_mbar_arrive(empty + stage_index);
    }
  }
}

// Pieces of 1024 bytes by cp.async of one warp, kStages in turn, as the loader copies without bulk copies. in
// is `rounds` pieces; out is 32 words.
PROBE probe_async(AS1 const u32* in, AS1 u32* out, u32 rounds) {
  const u32 lane = mk_thread();
  AS3 u64* full = barriers(0);
  AS3 char* stages = mk_shared() + 1024;
  if (lane < kStages) mk_mbar_init(full + lane, 1);
  mk_barrier(0, 32);
  u32 sum = 0;
  for (u32 i = 0; i < rounds + kStages - 1; ++i) {
    if (i < rounds) {
      for (u32 k = 0; k < 2; ++k)
        mk_async_load16(stages + i % kStages * 1024 + lane * 32 + k * 16, in + i * 256 + lane * 8 + k * 4);
      mk_async_arrive(full + i % kStages);
      mk_warp_sync();
      if (lane == 0) mk_mbar_arrive(full + i % kStages);
    }
    if (i + 1 < kStages) continue;
    const u32 at = i + 1 - kStages;
    if (!await(full + at % kStages, at / kStages % 2)) return;
    for (u32 k = 0; k < 8; ++k) sum = mixed(sum, ((AS3 u32*)(stages + at % kStages * 1024))[32 * k + lane]);
    mk_warp_sync();
  }
  out[lane] = sum;
}

// Pieces of 4096 bytes by cp.async.bulk of one lane to another warp, as the loader copies. in is `rounds`
// pieces; out is 32 words.
PROBE probe_bulk(AS1 const u32* in, AS1 u32* out, u32 rounds) {
  const u32 t = mk_thread(), lane = t % 32;
  AS3 u64 *full = barriers(0), *empty = full + kStages;
  AS3 char* stages = mk_shared() + 1024;
  if (t == 0) {
    for (u32 i = 0; i < kStages; ++i) mk_mbar_init(full + i, 1), mk_mbar_init(empty + i, 32);
    mk_fence_mbar_init();
  }
  mk_barrier(0, 64);
  u32 sum = 0;
  for (u32 i = 0; i < rounds; ++i) {
    const u32 stage_index = i % kStages, turn = i / kStages;
    AS3 char* stage = stages + stage_index * 4096;
    if (t >= 32) {
      if (!await(full + stage_index, turn % 2)) return;
      for (u32 k = 0; k < 32; ++k) sum = mixed(sum, ((AS3 u32*)stage)[32 * k + lane]);
      mk_mbar_arrive(empty + stage_index);
    } else if (t == 0) {
      if (turn > 0 && !await(empty + stage_index, (turn - 1) % 2)) return;
      mk_mbar_expect(full + stage_index, 4096);
      mk_bulk_load(stage, in + i * 1024, 4096, full + stage_index, mk_l2_policy(i % 2 == 0));
    }
  }
  if (t >= 32) out[lane] = sum;
}

// One product of each type by mma.sync. in is 6 words of bf16 pairs and 6 of f16 pairs for each lane, as the
// PTX ISA lays a and b out. out is 8 floats each.
PROBE probe_mma(AS1 const u32* in, AS1 u32* out, u32) {
  const u32 lane = mk_thread();
  AS1 const u32* x = in + 12 * lane;
  f32 d[4], e[4];
  MK_UNROLL
  for (u32 i = 0; i < 4; ++i) d[i] = (f32)(i + 1), e[i] = (f32)(i + 5);
  mk_mma_bf16(d, x[0], x[1], x[2], x[3], x[4], x[5]);
  mk_mma_f16(e, x[6], x[7], x[8], x[9], x[10], x[11]);
  MK_UNROLL
  for (u32 i = 0; i < 4; ++i) out[8 * lane + i] = bits_of(d[i]), out[8 * lane + 4 + i] = bits_of(e[i]);
}

// A warpgroup computes d += a * b, 64 by 64 by 64. in is 16 words of a for each thread, then b by columns of
// 32 words. out is 32 floats each. `type` is 0 for bf16, 1 for f16, and 2 for E4M3, which has half the words.
PROBE probe_wgmma(AS1 const u32* in, AS1 u32* out, u32 type) {
  const u32 t = mk_thread();
  AS3 char* b = mk_shared();
  for (u32 i = t; i < 64 * 32; i += 128) {
    const u32 column = i / 32, piece = i % 32 / 4, word = i % 4;
    *(AS3 u32*)(b + column * 128 + (piece ^ column % 8) * 16 + word * 4) = in[128 * 16 + i];
  }
  mk_fence_proxy_async();
  mk_barrier(0, 128);
  u32 a[16];
  f32 d[32];
  MK_UNROLL
  for (u32 i = 0; i < 16; ++i) a[i] = in[16 * t + i];
  MK_UNROLL
  for (u32 i = 0; i < 32; ++i) d[i] = (f32)i;
  if (type == 0)
    mk_wgmma_bf16(d, a, b);
  else if (type == 1)
    mk_wgmma_f16(d, a, b);
  else
    mk_wgmma_e4m3(d, a, b);
  mk_wgmma_wait(d);
  MK_UNROLL
  for (u32 i = 0; i < 32; ++i) out[32 * t + i] = bits_of(d[i]);
}

// A warpgroup leaves registers and two take them, as in a kernel whose products go by warpgroups. All keep
// many values meanwhile. in is a word each; out is a word each.
PROBE probe_setmaxnreg(AS1 const u32* in, AS1 u32* out, u32 rounds) {
  constexpr u32 kValues = 128;
  const u32 t = mk_thread();
  if (t >= 256) {
    mk_leave_registers();
    out[t] = in[t] + 1;
    return;
  }
  mk_take_registers();
  u32 kept[kValues];
  MK_UNROLL
  for (u32 i = 0; i < kValues; ++i) kept[i] = in[(t + i) % 384];
  MK_ROLLED
  for (u32 r = 0; r < rounds; ++r) {
    MK_UNROLL
    for (u32 i = 0; i < kValues; ++i) kept[i] = mixed(kept[i], kept[(i + 1) % kValues] + r);
  }
  u32 sum = 0;
  MK_UNROLL
  for (u32 i = 0; i < kValues; ++i) sum = mixed(sum, kept[i]);
  out[t] = sum;
}

// Block 0 writes words and tells block 1, which reads them and answers; `rounds` times. out is 32 sums of
// block 1's lanes, 32 words of data, and two counters, 128 bytes apart. All of out is zero before.
PROBE probe_messages(AS1 const u32* in, AS1 u32* out, u32 rounds) {
  const u32 lane = mk_thread();
  AS1 u32 *data = out + 32, *told = out + 64, *heard = out + 96;
  u32 sum = 0;
  for (u32 i = 1; i <= rounds; ++i) {
    bool come = false;
    if (mk_worker() == 0) {
      data[lane] = in[lane] * i;
      mk_warp_sync();
      if (lane == 0) {
        mk_fence_release();
        mk_red_relaxed(told, 1);
        for (u32 k = 0; k < kPolls && !come; ++k) {
          come = mk_load_acquire(heard) >= i;
          if (!come) mk_pause(heard, i);
        }
      }
    } else {
      if (lane == 0) {
        for (u32 k = 0; k < kPolls && !come; ++k) {
          come = mk_load_relaxed(told) >= i;
          if (!come) mk_pause(told, i);
        }
        come = come && mk_load_acquire(told) >= i;
      }
      mk_warp_sync();
      sum = mixed(sum, data[lane ^ 7]);
      mk_warp_sync();
      if (lane == 0) mk_store_release(heard, i);
    }
    if (!mk_warp_any(come)) return;
  }
  if (mk_worker() == 1) out[lane] = sum;
}

// Every thread claims `rounds` tickets of each of two counters and marks them. Each also adds to a third
// counter by compare and swap. The last of all blocks to arrive adds up what the others left. out is 4
// counters, 128 bytes apart, and the sum. A word for each block lies from word 256 on, and marks from 512 on.
// All of out is zero before.
PROBE probe_atomics(AS1 const u32* in, AS1 u32* out, u32 rounds) {
  const u32 t = mk_thread(), blocks = in[0], threads = in[1], all = blocks * threads * rounds;
  AS1 u32* marks = out + 512;
  for (u32 i = 0; i < rounds; ++i) {
    const u32 a = mk_add_relaxed(out, 1), b = mk_add_acq_rel(out + 32, 1);
    if (a < all) mk_red_relaxed(marks + a, 1);
    if (b < all) mk_red_relaxed(marks + b, 0x10000);
    u32 seen = mk_load_relaxed(out + 64), was;
    for (u32 k = 0; k < kPolls; ++k, seen = was)
      if ((was = mk_cas_relaxed(out + 64, seen, seen + 3)) == seen) break;
  }
  if (t != 0) return;
  out[256 + mk_worker()] = (mk_worker() + 1) * 1000;
  if (mk_add_acq_rel(out + 96, 1) != blocks - 1) return;
  u32 sum = 0;
  for (u32 i = 0; i < blocks; ++i) sum += out[256 + i];
  out[128] = sum;
}

// Times that the device's clock shows while one thread reads it `rounds` times: first, last, how many differ,
// and whether any went back.
PROBE probe_clock(AS1 const u32*, AS1 u32* out, u32 rounds) {
  const u64 first = mk_time_ns();
  u64 last = first;
  u32 ticks = 0, back = 0;
  for (u32 i = 0; i < rounds; ++i) {
    const u64 now = mk_time_ns();
    ticks += now != last ? 1 : 0;
    back += now < last ? 1 : 0;
    last = now;
  }
  out[0] = (u32)(last - first), out[1] = ticks, out[2] = back;
}
