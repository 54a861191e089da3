# Instruction sets of processors that code generation knows (codegen/targets.cc), as options of the compiler. LLVM splits
# vpdpwssd where it knows no processor that is fast at it. Zen 4 takes less time for the whole instruction.
set(MKC_LEVELS v3 avx512 v4 amx)
set(MKC_v3_FLAGS -march=x86-64-v3)
set(MKC_avx512_FLAGS -march=x86-64-v4 -mavx512vnni -Xclang=-target-feature -Xclang=+fast-dpwssd)
set(MKC_v4_FLAGS -march=x86-64-v4 -mavx512bf16 -mavx512vbmi -mavx512vnni -Xclang=-target-feature -Xclang=+fast-dpwssd)
set(MKC_amx_FLAGS ${MKC_v4_FLAGS} -mamx-tile -mamx-bf16 -mamx-int8)
