#include "codegen/processor_loops.h"

extern "C" const ProcessorLoops mkc_loops_v3, mkc_loops_avx512, mkc_loops_v4, mkc_loops_amx;

namespace mkc {

const ProcessorLoops* processor_loops(std::string_view target) {
  if (target == "x86-64-amx") return &mkc_loops_amx;
  if (target == "x86-64-v4") return &mkc_loops_v4;
  if (target == "x86-64-avx512") return &mkc_loops_avx512;
  return target == "x86-64-v3" ? &mkc_loops_v3 : nullptr;
}

}  // namespace mkc
