; Primitives of mk.h as sm_80 to sm_89 have them: barriers without scopes in their names (cta is meant) and
; without suspended waits, and no copy engine.
target triple = "nvptx64-nvidia-cuda"

declare i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3))
declare i1 @mk_mbar_test(ptr addrspace(3), i32)

; There is no asynchronous proxy; the worker barrier that follows orders the initialisation.
define void @mk_fence_mbar_init() #0 {
  ret void
}
define void @mk_fence_proxy_async() #0 {
  ret void
}
define void @mk_fence_release() #0 {
  call void asm sideeffect "fence.acq_rel.gpu;", "~{memory}"()
  ret void
}
define void @mk_mbar_arrive(ptr addrspace(3) %bar) #0 {
  %s = call i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3) %bar)
  ret void
}
define i1 @mk_mbar_try_wait(ptr addrspace(3) %bar, i32 %parity) #0 {
  %r = call i1 @mk_mbar_test(ptr addrspace(3) %bar, i32 %parity)
  ret i1 %r
}

; A kernel begins when the one before it has ended.
define void @mk_start_next() #0 {
  ret void
}
define void @mk_await_kernels() #0 {
  ret void
}

attributes #0 = { alwaysinline nounwind }
