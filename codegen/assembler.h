// Cubins are assembled by NVIDIA's PTX assembler, which is searched for and called here.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "codegen/targets.h"

namespace mkc {

// Resources are the resources of one kernel, as the assembler's log reports them.
struct Resources {
  std::string kernel;
  uint32_t registers = 0;
  uint32_t stack_bytes = 0;
  uint32_t spill_store_bytes = 0;
  uint32_t spill_load_bytes = 0;
};

struct Cubin {
  std::vector<std::byte> bytes;
  std::string log;  // log of the assembler, with the resources of each kernel
};

class Assembler {
 public:
  virtual ~Assembler() = default;
  virtual std::string name() const = 0;  // "nvJitLink 13.0 (/usr/…/libnvJitLink.so)"
  // Assembles PTX into a cubin for the target. Errors: the assembler's messages, with the lines of the PTX.
  virtual Result<Cubin> assemble(const std::string& ptx, const Target& target) const = 0;
};

// AssemblerCandidate is a file that exists, or that a flag or a variable names.
struct AssemblerCandidate {
  std::string path;
  std::string origin;  // the reason to look there: "--assembler", "MKC_ASSEMBLER", "CUDA_HOME", "PATH", …
  bool named = false;  // by a flag or a variable: no other one may take its place
};

struct AssemblerSearch {
  std::vector<AssemblerCandidate> found;  // in order of preference
  std::vector<std::string> looked_at;     // path patterns that were tried, each with its origin
};

// Returns the assemblers in order of preference. The flag, or else MKC_ASSEMBLER, names libnvJitLink.so or
// ptxas and ends the search. The path that they give is listed even if no such file exists. The places after
// these are CUDA_HOME, CUDA_PATH, the folder `assembler` next to the running program, the usual folders, and
// PATH.
//
// ptxas precedes nvJitLink in each toolkit folder, because nvJitLink assembles relocatable code. Relocatable
// code takes up to 26 registers more and spills on sm_80 to sm_89 (both assemblers from CUDA 13.0).
AssemblerSearch search_assemblers(const std::string& flag);

// Opens libnvJitLink by dlopen, or ptxas as a program. Errors: the file cannot be opened, or is older than
// CUDA 12.8, which mkc's PTX needs.
Result<std::unique_ptr<Assembler>> open_nvjitlink(const std::string& path);
Result<std::unique_ptr<Assembler>> open_ptxas(const std::string& path);

// Says why a driver loads no cubin of an assembler, by the assembler's name. Returns "" where it does.
// `driver` is the CUDA version that the driver supports, as it counts: 12080 is 12.8. A driver loads cubins
// of its own major version and of earlier ones (NVIDIA's CUDA Compatibility, "Minor Version Compatibility").
std::string why_not_loaded(const std::string& assembler, uint32_t driver);

struct OpenedAssembler {
  std::unique_ptr<Assembler> assembler;  // null: the file does not open
  std::string fault;  // why the file does not open, or the driver does not load its cubins; "": neither
};

// Opens libnvJitLink if the file name begins with "libnvJitLink", else ptxas. `driver` is 0 where the cubin
// may go to any driver.
OpenedAssembler open_assembler(const std::string& path, uint32_t driver);

// Returns the first assembler of the search that opens, and whose cubins the driver loads. `driver` is 0
// where the cubin may go to any driver. A flag or MKC_ASSEMBLER that names another one is an error. Errors:
// there is no such assembler; the message names each candidate with its fault, and tells how to get one.
Result<std::unique_ptr<Assembler>> find_assembler(const std::string& flag, uint32_t driver = 0);

// Returns registers, stack bytes and spill bytes of each kernel, in the order of an assembler's verbose log.
std::vector<Resources> read_resources(const std::string& log);

}  // namespace mkc
