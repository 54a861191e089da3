; mk_tracing() of mk.h. mkc replaces the loads of mk_traced by the kernel's constant before it optimises a kernel.
target triple = "nvptx64-nvidia-cuda"

@mk_traced = external constant i1

define zeroext i1 @mk_tracing() #0 {
  %v = load i1, ptr @mk_traced
  ret i1 %v
}

attributes #0 = { alwaysinline nounwind }
