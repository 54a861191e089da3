; Primitives of mk.h that need sm_90: barriers with explicit scope, bulk copies, proxy fences.
target triple = "nvptx64-nvidia-cuda"

declare i64 @llvm.nvvm.mbarrier.arrive.scope.cta.space.cta(ptr addrspace(3), i32)
declare i64 @llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta(ptr addrspace(3), i32)
declare i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta(ptr addrspace(3), i32)
declare void @llvm.nvvm.cp.async.bulk.global.to.shared.cta(ptr addrspace(3), ptr addrspace(3), ptr addrspace(1), i32, i64, i1)
declare void @llvm.nvvm.fence.mbarrier_init.release.cluster()

define void @mk_fence_mbar_init() #0 {
  call void @llvm.nvvm.fence.mbarrier_init.release.cluster()
  ret void
}
define void @mk_mbar_arrive(ptr addrspace(3) %bar) #0 {
  %s = call i64 @llvm.nvvm.mbarrier.arrive.scope.cta.space.cta(ptr addrspace(3) %bar, i32 1)
  ret void
}
define void @mk_mbar_expect(ptr addrspace(3) %bar, i32 %bytes) #0 {
  %s = call i64 @llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta(ptr addrspace(3) %bar, i32 %bytes)
  ret void
}
define i1 @mk_mbar_try_wait(ptr addrspace(3) %bar, i32 %parity) #0 {
  %d = call i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta(ptr addrspace(3) %bar, i32 %parity)
  ret i1 %d
}
define void @mk_bulk_load(ptr addrspace(3) %dst, ptr addrspace(1) %src, i32 %bytes, ptr addrspace(3) %bar, i64 %policy) #0 {
  call void @llvm.nvvm.cp.async.bulk.global.to.shared.cta(ptr addrspace(3) %dst, ptr addrspace(3) %bar, ptr addrspace(1) %src, i32 %bytes, i64 %policy, i1 true)
  ret void
}
define i64 @mk_l2_policy(i1 zeroext %once) #0 {
  %first = call i64 asm "createpolicy.fractional.L2::evict_first.b64 $0;", "=l"()
  %normal = call i64 asm "createpolicy.fractional.L2::evict_normal.b64 $0;", "=l"()
  %r = select i1 %once, i64 %first, i64 %normal
  ret i64 %r
}
; Without the space it would wait for all global memory, too (MEMBAR.ALL.GPU).
define void @mk_fence_proxy_async() #0 {
  call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"()
  ret void
}
define void @mk_fence_release() #0 {
  call void asm sideeffect "fence.release.gpu;", "~{memory}"()
  ret void
}

define void @mk_start_next() #0 {
  call void asm sideeffect "griddepcontrol.launch_dependents;", "~{memory}"()
  ret void
}
define void @mk_await_kernels() #0 {
  call void asm sideeffect "griddepcontrol.wait;", "~{memory}"()
  ret void
}

attributes #0 = { alwaysinline nounwind }
