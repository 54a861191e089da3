// This source is compiled for the instruction set of the bodies under test.
#include "tests/unit/processor/level/bf16_pairs.h"

#include <cstdio>
#include <cstdlib>

#include "runtime/device/processor.h"

namespace mk {

#ifdef __AMX_BF16__
const bool kBf16Pairs = [] {
  const mkrt::Status status = mkrt::use_target("x86-64-amx");
  if (!status.ok()) {
    std::fprintf(stderr, "left out: %s\n", status.error().message.c_str());
    std::_Exit(77);
  }
  return true;
}();
#elif defined __AVX512BF16__
const bool kBf16Pairs = true;
#else
const bool kBf16Pairs = false;
#endif

}  // namespace mk
