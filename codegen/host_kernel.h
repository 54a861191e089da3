// The kernel as host code, for the emulator.
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
      true;           // load by the copy engine and multiply by warpgroups, as sm_90a; otherwise as before
  bool race = false;  // report every access of global and shared memory to the emulator's race detector
  std::function<void(llvm::Module&)>
      edit{};  // for fault injection: changes the kernel before it is optimised
  Mode mode = Mode::kMegakernel;
  std::vector<std::string> without{};  // parts: see parse_without()
  bool quick = false;     // for few steps: compiles in a sixth of the time, runs two to three times slower
  Cache cache{};          // where code is looked for and kept, but that of an edit
  std::string program{};  // a name for what compiles, as code depends on it; "": nothing is kept
};

// Machine code in this process, for as long as the value lives. Immutable: threads may share it.
struct HostKernel {
  mkrt::StepKernels entries;
  std::vector<std::string> sites;  // "file:line" by the number that the race detector is given
  std::shared_ptr<void> code;
};

// The same module that a GPU gets, up to its primitives, which are the emulator's.
// Requires a proved schedule.
HostKernel compile_for_host(const Schedule& schedule, const HostOptions& options = {});

}  // namespace mkc
