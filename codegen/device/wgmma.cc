// Warpgroups multiply by these primitives (PTX ISA, wgmma and setmaxnreg). LLVM does not know that a product
// runs on until its wait. Each product is therefore one piece of assembly with its fence. The accumulators
// pass through the wait, so LLVM does not touch them earlier.
#include "codegen/device/worker.h"

#define EIGHT_SUMS(d, i)                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define SUMS(d) EIGHT_SUMS(d, 0), EIGHT_SUMS(d, 8), EIGHT_SUMS(d, 16), EIGHT_SUMS(d, 24)
#define FOUR_WORDS(a, i) "r"(a[i]), "r"(a[i + 1]), "r"(a[i + 2]), "r"(a[i + 3])

// STEP is one step of `k` columns. `words` are its words of a, and `b` is its descriptor of b. `plain` says
// that the operands are not transposed, where the type has such an operand.
#define STEP(k, type, words, b, plain)                                                      \
  "wgmma.mma_async.sync.aligned.m64n64k" k ".f32." type "." type                            \
  " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17,"       \
  " %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {" words "}, " b \
  ", 1, 1, 1" plain ";\n"
#define STEP16(type, words, b) STEP("16", type, words, b, ", 0")
#define MULTIPLY(type, d, a, b)                                                                        \
  asm volatile("wgmma.fence.sync.aligned;\n" STEP16(type, "%32, %33, %34, %35", "%48")                 \
                   STEP16(type, "%36, %37, %38, %39", "%49") STEP16(type, "%40, %41, %42, %43", "%50") \
                       STEP16(type, "%44, %45, %46, %47", "%51") "wgmma.commit_group.sync.aligned;"    \
               : SUMS(d)                                                                               \
               : FOUR_WORDS(a, 0), FOUR_WORDS(a, 4), FOUR_WORDS(a, 8), FOUR_WORDS(a, 12), "l"(b),      \
                 "l"(b + kStepBytes), "l"(b + 2 * kStepBytes), "l"(b + 3 * kStepBytes)                 \
               : "memory")

namespace mk {
namespace {

// Descriptors count in units of 16 bytes.
constexpr u64 kStepBytes = 32 / 16;    // from one step's columns to the next
constexpr u64 kEightRows = 1024 / 16;  // from 8 rows of 128 bytes to the next
constexpr u64 kSwizzle128 = (u64)1 << 62;

MK_INLINE u64 descriptor(AS3 const void* b) {
  const u64 address = (u32)(uintptr_t)b & 0x3ffff;
  return kSwizzle128 | kEightRows << 32 | (u64)1 << 16 | address / 16;
}

}  // namespace
}  // namespace mk

MK_BODY void mk_wgmma_bf16(f32* d, const u32* a, AS3 const void* b) noexcept {
  using namespace mk;
  const u64 rows = descriptor(b);
  MULTIPLY("bf16", d, a, rows);
}
MK_BODY void mk_wgmma_f16(f32* d, const u32* a, AS3 const void* b) noexcept {
  using namespace mk;
  const u64 rows = descriptor(b);
  MULTIPLY("f16", d, a, rows);
}
MK_BODY void mk_wgmma_e4m3(f32* d, const u32* a, AS3 const void* b) noexcept {
  using namespace mk;
  const u64 rows = descriptor(b);
  asm volatile("wgmma.fence.sync.aligned;\n" STEP("32", "e4m3", "%32, %33, %34, %35", "%40", "")
                   STEP("32", "e4m3", "%36, %37, %38, %39", "%41", "") "wgmma.commit_group.sync.aligned;"
               : SUMS(d)
               : FOUR_WORDS(a, 0), FOUR_WORDS(a, 4), "l"(rows), "l"(rows + kStepBytes)
               : "memory");
}
MK_BODY void mk_take_registers() noexcept {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 200;" : : : "memory");
}
MK_BODY void mk_leave_registers() noexcept {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 104;" : : : "memory");
}
MK_BODY void mk_wgmma_wait(f32* d) noexcept {
  asm volatile("wgmma.wait_group.sync.aligned 0;" : SUMS(d) : : "memory");
}
