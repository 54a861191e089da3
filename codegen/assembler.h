// NVIDIA's assembler: where it is found, and how it is called.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "codegen/targets.h"

namespace mkc {

// What the assembler says of a kernel.
struct Resources {
  std::string kernel;
  uint32_t registers = 0;
  uint32_t stack_bytes = 0;
  uint32_t spill_store_bytes = 0;
  uint32_t spill_load_bytes = 0;
};

struct Cubin {
  std::vector<std::byte> bytes;
  std::string log;  // the assembler's, with the resources of each kernel
};

class Assembler {
 public:
  virtual ~Assembler() = default;
  virtual std::string name() const = 0;  // "nvJitLink 13.0 (/usr/…/libnvJitLink.so)"
  // Errors: what the assembler reports, with the lines of the PTX.
  virtual Result<Cubin> assemble(const std::string& ptx, const Target& target) const = 0;
};

// A file that is there, or that a flag names.
struct AssemblerCandidate {
  std::string path;
  std::string origin;  // why there: "--assembler", "MKC_ASSEMBLER", "CUDA_HOME", "PATH", …
};

struct AssemblerSearch {
  std::vector<AssemblerCandidate> found;  // in order of preference
  std::vector<std::string> looked_at;     // patterns of paths, each with its origin
};

// Looks at the flag's value (a path of libnvJitLink.so or ptxas), MKC_ASSEMBLER, CUDA_HOME and CUDA_PATH, the
// folder `assembler` beside the running program, the usual folders, PATH. In each folder ptxas goes before
// nvJitLink, which assembles relocatable code: that takes up to 26 registers more and spills on sm_80 to
// sm_89 (both of CUDA 13.0). A flag or MKC_ASSEMBLER ends the search, and is listed even if it names nothing.
AssemblerSearch search_assemblers(const std::string& flag);

// Opens libnvJitLink by dlopen, or a ptxas program, by the path's name. Errors: it cannot be opened, or is
// too old for the PTX that mkc writes (CUDA 12.8).
Result<std::unique_ptr<Assembler>> open_assembler(const std::string& path);
Result<std::unique_ptr<Assembler>> open_nvjitlink(const std::string& path);
Result<std::unique_ptr<Assembler>> open_ptxas(const std::string& path);

// The first that opens; none after it is tried. Error: none; the message says where it looked and how to get
// one.
Result<std::unique_ptr<Assembler>> find_assembler(const std::string& flag);

// Registers, stack and spills of each kernel, in the order of an assembler's verbose log.
std::vector<Resources> read_resources(const std::string& log);

}  // namespace mkc
