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
define i32 @mk_max_abs_bf16x2(i32 %a, i32 %b) #0 {
  %r = call i32 asm "max.xorsign.abs.bf16x2 $0, $1, $2;", "=r,r,r"(i32 %a, i32 %b)
  ret i32 %r
}
define i32 @mk_codes_e4m3(float %a, float %b, float %c, float %d) #0 {
  %lo = call i16 @llvm.nvvm.ff.to.e4m3x2.rn(float %b, float %a)
  %hi = call i16 @llvm.nvvm.ff.to.e4m3x2.rn(float %d, float %c)
  %l = zext i16 %lo to i32
  %h = zext i16 %hi to i32
  %s = shl i32 %h, 16
  %r = or i32 %s, %l
  ret i32 %r
}
define void @mk_mma_e4m3(ptr %d, i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1) #1 {
  %c = load <4 x float>, ptr %d, align 4
  %c0 = extractelement <4 x float> %c, i32 0
  %c1 = extractelement <4 x float> %c, i32 1
  %c2 = extractelement <4 x float> %c, i32 2
  %c3 = extractelement <4 x float> %c, i32 3
  %r = call {float, float, float, float} asm sideeffect "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {$0,$1,$2,$3}, {$4,$5,$6,$7}, {$8,$9}, {$10,$11,$12,$13};", "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f"(i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1, float %c0, float %c1, float %c2, float %c3) #1
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

attributes #0 = { alwaysinline nounwind }
attributes #1 = { alwaysinline convergent nounwind }
