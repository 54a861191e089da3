; The primitives of mk.h for GPUs, sm_80 on; nvptx_sm90.ll holds those that need sm_90.
; Ordered read-modify-writes are inline assembly: LLVM 22 lowers atomicrmw without its order and scope.
target triple = "nvptx64-nvidia-cuda"

@mk_dynamic_shared = external addrspace(3) global [0 x i8], align 1024

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i64 @llvm.nvvm.read.ptx.sreg.globaltimer()
declare void @llvm.nvvm.barrier.cta.sync.aligned.count(i32, i32)
declare void @llvm.nvvm.bar.warp.sync(i32)
declare float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)
declare i1 @llvm.nvvm.vote.any.sync(i32, i1)
declare i32 @llvm.nvvm.prmt(i32, i32, i32)
declare void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3), i32)
declare void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3), ptr addrspace(1))
declare void @llvm.nvvm.cp.async.mbarrier.arrive.shared(ptr addrspace(3))
declare void @llvm.nvvm.nanosleep(i32)
declare float @llvm.nvvm.rsqrt.approx.f(float)
declare float @llvm.nvvm.rcp.approx.ftz.f(float)
declare float @llvm.nvvm.ex2.approx.f32(float)
declare <2 x bfloat> @llvm.nvvm.ff2bf16x2.rn(float, float)
declare <2 x half> @llvm.nvvm.ff2f16x2.rn(float, float)
declare float @llvm.maxnum.f32(float, float)

define i32 @mk_thread() #0 {
  %v = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  ret i32 %v
}
define i32 @mk_worker() #0 {
  %v = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  ret i32 %v
}
define ptr addrspace(3) @mk_shared() #0 {
  ret ptr addrspace(3) @mk_dynamic_shared
}
define i64 @mk_time_ns() #0 {
  %v = call i64 @llvm.nvvm.read.ptx.sreg.globaltimer()
  ret i64 %v
}
define i64 @mk_stamp_time() #0 {
  %v = call i64 @llvm.nvvm.read.ptx.sreg.globaltimer()
  ret i64 %v
}

define void @mk_barrier(i32 %id, i32 %threads) #1 {
  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 %id, i32 %threads)
  ret void
}
define void @mk_warp_sync() #1 {
  call void @llvm.nvvm.bar.warp.sync(i32 -1)
  ret void
}
define float @mk_shuffle_xor(float %v, i32 %mask) #1 {
  %r = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %v, i32 %mask, i32 31)
  ret float %r
}
define internal float @add_lane(float %v, i32 %mask) #1 {
  %o = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %v, i32 %mask, i32 31)
  %r = fadd float %v, %o
  ret float %r
}
define internal float @max_lane(float %v, i32 %mask) #1 {
  %o = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %v, i32 %mask, i32 31)
  %r = call float @llvm.maxnum.f32(float %v, float %o)
  ret float %r
}
define float @mk_warp_sum(float %v) #1 {
  %a = call float @add_lane(float %v, i32 16)
  %b = call float @add_lane(float %a, i32 8)
  %c = call float @add_lane(float %b, i32 4)
  %d = call float @mk_quad_sum(float %c)
  ret float %d
}
define float @mk_warp_max(float %v) #1 {
  %a = call float @max_lane(float %v, i32 16)
  %b = call float @max_lane(float %a, i32 8)
  %c = call float @max_lane(float %b, i32 4)
  %d = call float @max_lane(float %c, i32 2)
  %e = call float @max_lane(float %d, i32 1)
  ret float %e
}
define zeroext i1 @mk_warp_any(i1 zeroext %v) #1 {
  %r = call i1 @llvm.nvvm.vote.any.sync(i32 -1, i1 %v)
  ret i1 %r
}
define float @mk_quad_sum(float %v) #1 {
  %a = call float @add_lane(float %v, i32 2)
  %b = call float @add_lane(float %a, i32 1)
  ret float %b
}

define void @mk_mma_bf16(ptr %d, i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1) #1 {
  %c = load <4 x float>, ptr %d, align 4
  %c0 = extractelement <4 x float> %c, i32 0
  %c1 = extractelement <4 x float> %c, i32 1
  %c2 = extractelement <4 x float> %c, i32 2
  %c3 = extractelement <4 x float> %c, i32 3
  %r = call {float, float, float, float} asm sideeffect "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};", "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f"(i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1, float %c0, float %c1, float %c2, float %c3) #1
  call void @store4({float, float, float, float} %r, ptr %d)
  ret void
}
define void @mk_mma_f16(ptr %d, i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1) #1 {
  %c = load <4 x float>, ptr %d, align 4
  %c0 = extractelement <4 x float> %c, i32 0
  %c1 = extractelement <4 x float> %c, i32 1
  %c2 = extractelement <4 x float> %c, i32 2
  %c3 = extractelement <4 x float> %c, i32 3
  %r = call {float, float, float, float} asm sideeffect "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};", "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f"(i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1, float %c0, float %c1, float %c2, float %c3) #1
  call void @store4({float, float, float, float} %r, ptr %d)
  ret void
}
define internal void @store4({float, float, float, float} %r, ptr %d) #0 {
  %r0 = extractvalue {float, float, float, float} %r, 0
  %r1 = extractvalue {float, float, float, float} %r, 1
  %r2 = extractvalue {float, float, float, float} %r, 2
  %r3 = extractvalue {float, float, float, float} %r, 3
  %d1 = getelementptr float, ptr %d, i32 1
  %d2 = getelementptr float, ptr %d, i32 2
  %d3 = getelementptr float, ptr %d, i32 3
  store float %r0, ptr %d
  store float %r1, ptr %d1
  store float %r2, ptr %d2
  store float %r3, ptr %d3
  ret void
}

; test_wait by parity has no intrinsic.
define i1 @mk_mbar_test(ptr addrspace(3) %bar, i32 %parity) #0 {
  %a = ptrtoint ptr addrspace(3) %bar to i32
  %d = call i32 asm sideeffect "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [$1], $2; selp.u32 $0, 1, 0, p; }", "=r,r,r,~{memory}"(i32 %a, i32 %parity)
  %r = icmp ne i32 %d, 0
  ret i1 %r
}
define void @mk_mbar_init(ptr addrspace(3) %bar, i32 %arrivals) #0 {
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %bar, i32 %arrivals)
  ret void
}
define void @mk_async_load16(ptr addrspace(3) %dst, ptr addrspace(1) %src) #0 {
  call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %dst, ptr addrspace(1) %src)
  ret void
}
define void @mk_async_arrive(ptr addrspace(3) %bar) #0 {
  call void @llvm.nvvm.cp.async.mbarrier.arrive.shared(ptr addrspace(3) %bar)
  ret void
}

define i32 @mk_load_acquire(ptr addrspace(1) %p) #0 {
  %v = load atomic i32, ptr addrspace(1) %p syncscope("device") acquire, align 4
  ret i32 %v
}
define i32 @mk_load_relaxed(ptr addrspace(1) %p) #0 {
  %v = load atomic i32, ptr addrspace(1) %p syncscope("device") monotonic, align 4
  ret i32 %v
}
define void @mk_red_relaxed(ptr addrspace(1) %p, i32 %n) #0 {
  call void asm sideeffect "red.relaxed.gpu.global.add.u32 [$0], $1;", "l,r,~{memory}"(ptr addrspace(1) %p, i32 %n)
  ret void
}
define i32 @mk_add_acq_rel(ptr addrspace(1) %p, i32 %n) #0 {
  %v = call i32 asm sideeffect "atom.acq_rel.gpu.global.add.u32 $0, [$1], $2;", "=r,l,r,~{memory}"(ptr addrspace(1) %p, i32 %n)
  ret i32 %v
}
define i32 @mk_add_relaxed(ptr addrspace(1) %p, i32 %n) #0 {
  %v = call i32 asm sideeffect "atom.relaxed.gpu.global.add.u32 $0, [$1], $2;", "=r,l,r,~{memory}"(ptr addrspace(1) %p, i32 %n)
  ret i32 %v
}
define i32 @mk_cas_relaxed(ptr addrspace(1) %p, i32 %expected, i32 %desired) #0 {
  %v = call i32 asm sideeffect "atom.relaxed.gpu.global.cas.b32 $0, [$1], $2, $3;", "=r,l,r,r,~{memory}"(ptr addrspace(1) %p, i32 %expected, i32 %desired)
  ret i32 %v
}
define void @mk_store_release(ptr addrspace(1) %p, i32 %v) #0 {
  store atomic i32 %v, ptr addrspace(1) %p syncscope("device") release, align 4
  ret void
}
define void @mk_pause(ptr addrspace(1) %p, i32 %want) #0 {
  call void @llvm.nvvm.nanosleep(i32 20)
  ret void
}

define i32 @mk_low_halves(i32 %a, i32 %b) #0 {
  %v = call i32 @llvm.nvvm.prmt(i32 %a, i32 %b, i32 u0x5410)
  ret i32 %v
}
define i32 @mk_high_halves(i32 %a, i32 %b) #0 {
  %v = call i32 @llvm.nvvm.prmt(i32 %a, i32 %b, i32 u0x7632)
  ret i32 %v
}

define float @mk_rsqrt(float %x) #0 {
  %r = call float @llvm.nvvm.rsqrt.approx.f(float %x)
  ret float %r
}
define float @mk_rcp(float %x) #0 {
  %r = call float @llvm.nvvm.rcp.approx.ftz.f(float %x)
  ret float %r
}
define float @mk_exp2(float %x) #0 {
  %r = call float @llvm.nvvm.ex2.approx.f32(float %x)
  ret float %r
}
; ff2…x2 puts its first operand in the high half.
define i32 @mk_pack_bf16(float %lo, float %hi) #0 {
  %v = call <2 x bfloat> @llvm.nvvm.ff2bf16x2.rn(float %hi, float %lo)
  %r = bitcast <2 x bfloat> %v to i32
  ret i32 %r
}
define i32 @mk_fma_bf16x2(i32 %a, i32 %b, i32 %c) #0 {
  %x = bitcast i32 %a to <2 x bfloat>
  %y = bitcast i32 %b to <2 x bfloat>
  %z = bitcast i32 %c to <2 x bfloat>
  %v = call <2 x bfloat> @llvm.nvvm.fma.rn.bf16x2(<2 x bfloat> %x, <2 x bfloat> %y, <2 x bfloat> %z)
  %r = bitcast <2 x bfloat> %v to i32
  ret i32 %r
}
define i32 @mk_pack_f16(float %lo, float %hi) #0 {
  %v = call <2 x half> @llvm.nvvm.ff2f16x2.rn(float %hi, float %lo)
  %r = bitcast <2 x half> %v to i32
  ret i32 %r
}
define float @mk_f16_to_f32(i32 %bits) #0 {
  %s = trunc i32 %bits to i16
  %h = bitcast i16 %s to half
  %r = fpext half %h to float
  ret float %r
}

define void @mk_task_begin(i32 %grid, i32 %task) #0 {
  ret void
}
define void @mk_task_end(i32 %grid, i32 %first, i32 %count) #0 {
  ret void
}
define void @mk_task_ready(i32 %grid, i32 %task, i32 %tasks) #0 {
  ret void
}
define void @mk_load_begin(i32 %grid, i32 %first, i32 %tasks) #0 {
  ret void
}
define void @mk_load_end() #0 {
  ret void
}
define void @mk_spoil(ptr addrspace(3) %p, i32 %bytes) #0 {
  ret void
}
define void @mk_spoil_last(ptr addrspace(3) %p, i32 %bytes) #0 {
  ret void
}

attributes #0 = { alwaysinline nounwind }
attributes #1 = { alwaysinline convergent nounwind }
