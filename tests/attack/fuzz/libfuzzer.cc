// One parser runs under libFuzzer. MKC_PARSER is its name. The table of all parsers is not used, so that a
// program holds the code of its own parser alone: libFuzzer looks at all of a program's counters after each
// input.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tests/attack/fuzz/mutate.h"
#include "tests/attack/fuzz/parsers.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

#define MKC_JOINED(a, b) a##b
#define MKC_FUNCTION(prefix, name) MKC_JOINED(prefix, name)
#define MKC_SEEDS(name) MKC_JOINED(name, _seeds)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mkc::attack::MKC_FUNCTION(run_, MKC_PARSER)({reinterpret_cast<const char*>(data), size});
  return 0;
}

// Half of the mutants are structured ones.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  mkc::attack::Random random(seed);
  const std::string text = mkc::attack::mutate({reinterpret_cast<const char*>(data), size}, random);
  const size_t bytes = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), bytes);
  return bytes;
}

// --seeds=FOLDER writes the valid inputs there, for a corpus, and ends.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    if (std::strncmp((*argv)[i], "--seeds=", 8) != 0) continue;
    size_t number = 0;
    for (const std::string& seed : mkc::attack::MKC_SEEDS(MKC_PARSER)()) {
      std::ofstream out((*argv)[i] + 8 + ("/seed" + std::to_string(number++)), std::ios::binary);
      out.write(seed.data(), static_cast<std::streamsize>(seed.size()));
    }
    std::exit(0);
  }
  return 0;
}
