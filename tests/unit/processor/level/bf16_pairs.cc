// This source is compiled for the instruction set of the bodies under test.
#include "tests/unit/processor/level/bf16_pairs.h"

namespace mk {

#ifdef __AVX512BF16__
const bool kBf16Pairs = true;
#else
const bool kBf16Pairs = false;
#endif

}  // namespace mk
