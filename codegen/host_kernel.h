// The emulator runs the kernel as host code.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/cache.h"
#include "codegen/kinds.h"
#include "codegen/mode.h"
#include "runtime/emulator/emulator.h"

namespace llvm {
class Module;
}

namespace mkc {

struct HostOptions {
  bool bulk_copy =
      true;  // loads by bulk copies, multiplies by warpgroups (sm_90a); else by cp.async and mma.sync
  bool race = false;  // reports every access of global and shared memory to the emulator's race detector
  std::function<void(llvm::Module&)>
      edit{};  // for fault injection: changes the kernel's module before it is optimised
  Mode mode = Mode::kMegakernel;
  std::vector<std::string> without{};  // target features that the code does not use: parse_without()
  // quick suits race mode and runs of up to 200 steps: the kernel calls bodies that are compiled already
  // (host_bodies.h).
  bool quick = false;
  Cache cache{};          // holds compiled code; edited kernels are neither looked up nor kept
  std::string program{};  // identity of the compiling program, part of the cache key; "": nothing is kept
};

// HostKernel is machine code in this process. The code lives as long as the value or a copy of it. The value
// is immutable, and threads may share it.
struct HostKernel {
  mkrt::StepKernels entries;
  std::vector<std::string> sites;  // "file:line", by the site number of race reports
  std::shared_ptr<void> code;
};

// Compiles the kernel module that a GPU gets, with the emulator's primitives in place of the GPU's. Requires
// a proved schedule.
HostKernel compile_for_host(const Schedule& schedule, const HostOptions& options = {});

}  // namespace mkc
