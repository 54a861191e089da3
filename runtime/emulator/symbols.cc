#include "runtime/emulator/emulator.h"
#include "runtime/emulator/primitives.h"

namespace mkrt {

std::vector<std::pair<const char*, void*>> emulator_symbols() {
#define SYMBOL(name)                        \
  {                                         \
    #name, reinterpret_cast<void*>(&(name)) \
  }
  return {
      SYMBOL(mk_thread),         SYMBOL(mk_worker),
      SYMBOL(mk_shared),         SYMBOL(mk_time_ns),
      SYMBOL(mk_barrier),        SYMBOL(mk_warp_sync),
      SYMBOL(mk_shuffle_xor),    SYMBOL(mk_warp_sum),
      SYMBOL(mk_warp_max),       SYMBOL(mk_quad_sum),
      SYMBOL(mk_warp_any),       SYMBOL(mk_l2_policy),
      SYMBOL(mk_mma_bf16),       SYMBOL(mk_mma_f16),
      SYMBOL(mk_mbar_init),      SYMBOL(mk_fence_mbar_init),
      SYMBOL(mk_mbar_arrive),    SYMBOL(mk_mbar_expect),
      SYMBOL(mk_mbar_try_wait),  SYMBOL(mk_mbar_test),
      SYMBOL(mk_bulk_load),      SYMBOL(mk_async_load16),
      SYMBOL(mk_async_arrive),   SYMBOL(mk_fence_proxy_async),
      SYMBOL(mk_load_acquire),   SYMBOL(mk_load_relaxed),
      SYMBOL(mk_fence_release),  SYMBOL(mk_red_relaxed),
      SYMBOL(mk_add_acq_rel),    SYMBOL(mk_cas_relaxed),
      SYMBOL(mk_store_release),  SYMBOL(mk_pause),
      SYMBOL(mk_start_next),     SYMBOL(mk_await_kernels),
      SYMBOL(mk_low_halves),     SYMBOL(mk_high_halves),
      SYMBOL(mk_rsqrt),          SYMBOL(mk_rcp),
      SYMBOL(mk_exp2),           SYMBOL(mk_pack_bf16),
      SYMBOL(mk_fma_bf16x2),     SYMBOL(mk_pack_f16),
      SYMBOL(mk_f16_to_f32),     SYMBOL(mk_pack_e4m3),
      SYMBOL(mk_unpack_e4m3),    SYMBOL(mk_stamp_time),
      SYMBOL(mk_task_begin),     SYMBOL(mk_task_end),
      SYMBOL(mk_task_ready),     SYMBOL(mk_load_begin),
      SYMBOL(mk_load_end),       SYMBOL(mk_spoil),
      SYMBOL(mk_spoil_last),     SYMBOL(mk_race_read),
      SYMBOL(mk_race_write),     SYMBOL(mk_add_relaxed),
      SYMBOL(mk_wgmma_bf16),     SYMBOL(mk_wgmma_f16),
      SYMBOL(mk_wgmma_e4m3),     SYMBOL(mk_wgmma_wait),
      SYMBOL(mk_take_registers), SYMBOL(mk_leave_registers),
      SYMBOL(mk_mma_e4m3),       SYMBOL(mk_codes_e4m3),
      SYMBOL(mk_max_abs_bf16x2),
  };
#undef SYMBOL
}

}  // namespace mkrt
