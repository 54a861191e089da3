// NVIDIA's assembler: where it is found, and how it is called.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "codegen/targets.h"

namespace mkc {

// What the assembler says of the kernel.
struct Resources {
  uint32_t registers = 0;
  uint32_t stack_bytes = 0;
  uint32_t spill_store_bytes = 0;
  uint32_t spill_load_bytes = 0;
};

struct Cubin {
  std::vector<std::byte> bytes;
  Resources resources;
};

class Assembler {
 public:
  virtual ~Assembler() = default;
  virtual std::string name() const = 0;  // "nvJitLink 13.0 (/usr/…/libnvJitLink.so)"
  // Errors: what the assembler reports, with the lines of the PTX.
  virtual Result<Cubin> assemble(const std::string& ptx, const Target& target) const = 0;
};

// A place that was looked at.
struct AssemblerCandidate {
  std::string path;
  std::string origin;   // why there: "--assembler", "MKC_ASSEMBLER", "CUDA_HOME", "PATH", …
  std::string problem;  // empty: usable
};

// Every place, in order of preference: the flag's value (a path of libnvJitLink.so or ptxas), MKC_ASSEMBLER,
// CUDA_HOME and CUDA_PATH, the folder `assembler` beside the running program, the usual folders, PATH. In
// each folder nvJitLink, which works in this process, goes before ptxas. Only what exists is listed; a flag
// or MKC_ASSEMBLER is listed in any case, and ends the search.
std::vector<AssemblerCandidate> assembler_candidates(const std::string& flag);

// The first usable one. Error: none; the message says where it looked and how to get one.
Result<std::unique_ptr<Assembler>> find_assembler(const std::string& flag);

// Opens libnvJitLink by dlopen, or a ptxas program. Errors: it cannot be opened, or is too old for the PTX
// that mkc writes (CUDA 12.8).
Result<std::unique_ptr<Assembler>> open_nvjitlink(const std::string& path);
Result<std::unique_ptr<Assembler>> open_ptxas(const std::string& path);

// Registers, stack and spills from an assembler's verbose log.
Resources read_resources(const std::string& log);

}  // namespace mkc
