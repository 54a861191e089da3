; The primitives of 8-bit floats as sm_89 and later targets have them.
target triple = "nvptx64-nvidia-cuda"

declare i16 @llvm.nvvm.ff.to.e4m3x2.rn(float, float)
declare <2 x half> @llvm.nvvm.e4m3x2.to.f16x2.rn(i16)

; The sign of a NaN's result is nowhere said, so a NaN goes in without one.
define internal float @plain_nan(float %v) #0 {
  %nan = fcmp uno float %v, 0.0
  %r = select i1 %nan, float 0x7FFFFFFFE0000000, float %v
  ret float %r
}
; ff.to.…x2 puts its first operand in the high half.
define i32 @mk_pack_e4m3(float %lo, float %hi) #0 {
  %l = call float @plain_nan(float %lo)
  %h = call float @plain_nan(float %hi)
  %v = call i16 @llvm.nvvm.ff.to.e4m3x2.rn(float %h, float %l)
  %r = zext i16 %v to i32
  ret i32 %r
}
define i32 @mk_unpack_e4m3(i32 %codes) #0 {
  %c = trunc i32 %codes to i16
  %v = call <2 x half> @llvm.nvvm.e4m3x2.to.f16x2.rn(i16 %c)
  %r = bitcast <2 x half> %v to i32
  ret i32 %r
}

attributes #0 = { alwaysinline nounwind }
