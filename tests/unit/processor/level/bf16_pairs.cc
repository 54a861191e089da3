// This source is compiled for the instruction set of the bodies under test.
#include "tests/unit/processor/level/bf16_pairs.h"

#include "runtime/device/processor.h"

namespace mk {

#ifdef __AMX_BF16__
const bool kBf16Pairs = mkrt::processor_target() == "x86-64-amx";  // asks the system for AMX, too
#elif defined __AVX512BF16__
const bool kBf16Pairs = true;
#else
const bool kBf16Pairs = false;
#endif

}  // namespace mk
