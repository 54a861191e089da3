// The emulator runs a megakernel on the CPU. Every GPU thread is a fiber. The primitives of
// codegen/device/mk.h have their real semantics, including late copies. docs/emulator.md says what is
// modelled and what is not.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/abi/abi.h"
#include "runtime/base/status.h"
#include "runtime/emulator/counts.h"
#include "runtime/emulator/disturbance.h"

namespace mkrt {

namespace emulator {
class StackPool;
}

// The entry types belong to the compiled kernels mk_kernel, mk_grid_<kind> and mk_pack.
using KernelEntry = void (*)(const MkSession*, const MkStep*);
using GridEntry = void (*)(const MkSession*, const MkStep*, uint32_t grid);
using PackEntry = void (*)(const MkPack*, uint32_t workers, uint32_t threads);

// AccessRules knows which reads and writes tasks declare. Launches on more than one OS thread cannot use the
// rules.
class AccessRules {
 public:
  virtual ~AccessRules() = default;
  // Called before each step with its sizes and addresses.
  virtual void begin_step(const MkSession& session, const MkStep& step) = 0;
  // Returns the fault of an access to these bytes, or "" if the access is declared. Tasks [task, task +
  // count) are those of the grid that its body takes together. Example: "reads %x[3, 17], of which it
  // declares only %x[0:+2, 0:+64]".
  virtual std::string check(uint32_t grid, uint32_t task, uint32_t count, uint64_t address, uint32_t bytes,
                            bool write) = 0;
};

// WorkspaceTensor is a tensor's place in the workspace.
struct WorkspaceTensor {
  uint64_t offset = 0, bytes = 0;
};

// StepKernels has the kernels of a step and the one that packs weights. A step has mk_kernel, or the kernels
// of its grids by kind, with null for kinds that have none.
struct StepKernels {
  KernelEntry step = nullptr;
  std::vector<GridEntry> grids;
  PackEntry pack = nullptr;
  // Tasks of a grid write the tensors of `written[grid]`, which are indices in `tensors`.
  std::vector<WorkspaceTensor> tensors{};
  std::vector<std::vector<uint32_t>> written{};
  std::shared_ptr<AccessRules> rules{};  // for kernels that report their accesses
  // The tensor whose first word is read to look up a grid's tasks, by grid, or kNotLookedUp.
  std::vector<uint32_t> looked_up{};
  // Returns the counters expected at the end of a step; empty means that they are not checked.
  CountStep counts{};
};
constexpr uint32_t kNotLookedUp = 0xffffffffu;

// KernelCall is the call of a launch, made once for every GPU thread.
using KernelCall = std::function<void(const MkSession*, const MkStep*)>;

struct EmulatorOptions {
  uint32_t workers = 1;
  uint32_t threads_per_worker = kWorkerThreads;  // a multiple of 32
  uint32_t shared_bytes = 0;                     // of each worker; spoilt at the launch
  uint64_t seed = 0;          // 0: fixed order; else it seeds the order of threads, workers and copies
  uint32_t os_threads = 1;    // worker w runs on OS thread w mod os_threads
  bool race = false;          // finds unordered accesses; requires os_threads == 1
  uint32_t max_reports = 16;  // distinct races after which the launch ends, at the last one's access
  // after_step is called when all tasks of a step have ended, maybe twice at the end of a launch without
  // faults. before_step is called by threads of the launch before each step but the first.
  //
  // before_task is called by all threads of a task between its waits and its work.
  std::function<void()> after_step{};
  std::function<void()> before_step{};
  std::function<void(uint32_t grid)> before_task{};
  AccessRules* rules = nullptr;  // race mode only: an access that breaks them ends the launch
  // Called by one thread of each worker that has run tasks of a grid together.
  std::function<void(uint32_t grid, uint32_t first, uint32_t count)> after_tasks{};
  // Milliseconds of processor time that a thread of JIT code may run without a switch; 0: no limit.
  uint32_t patience_ms = 30'000;
  emulator::StackPool* stacks = nullptr;  // source of fibers' stacks, which are returned; null: mapped anew
  Disturbance disturbance{};              // with more than 1 OS thread: none, or kDrop
};

struct EmulatorStats {
  uint64_t switches = 0;     // of fibers
  uint64_t barriers = 0;     // completed named barriers
  uint64_t collectives = 0;  // completed warp collectives, products included
  uint64_t products = 0;     // calls of mma
  uint64_t copies = 0;       // bulk and 16-byte asynchronous copies
  uint64_t copied_bytes = 0;
  uint64_t notifications = 0;  // mk_red_relaxed and mk_add_acq_rel
  uint64_t tasks = 0;          // distinct consecutive mk_task_begin of a warp
  uint64_t time_jumps = 0;     // times that virtual time passed a deadline because nothing could run
};

// EmulatorNames turns numbers into names for messages. An empty function or an empty result leaves the
// number.
struct EmulatorNames {
  std::function<std::string(uint32_t grid)> grid;
  std::function<std::string(uint64_t address)> tensor;  // tensor and element offset, e.g. "%act[3, 17]"
  std::function<std::string(uint32_t site)> site;       // "file:line" of an instrumented access
};

enum class RaceKind {
  kReadAfterWrite,
  kWriteAfterRead,
  kWriteAfterWrite,
  kProxy,         // ordered, but no mk_fence_proxy_async before a bulk copy touches generic writes
  kOutsideShared  // an access next to a worker's shared memory
};

// RaceParty is one side of a race: a thread, or a copy that it issued.
struct RaceParty {
  uint32_t worker = 0;
  uint32_t thread = 0;  // in the worker; kCopyThread for a bulk copy
  uint32_t grid = kNoTask;
  uint32_t task = kNoTask;
  uint32_t site = 0;

  static constexpr uint32_t kNoTask = 0xffffffffu;
  static constexpr uint32_t kCopyThread = 0xfffffffeu;
};

struct RaceReport {
  RaceKind kind;
  uint64_t address;   // first byte of the access, as this process sees it
  RaceParty now;      // the access that found the race
  RaceParty earlier;  // equal to `now` for kOutsideShared
  std::string message;
};

// Sites that the emulator gives to its own accesses. Instrumented sites have lower numbers.
constexpr uint32_t kSiteCopy = 0xfffffff0u;     // an asynchronous copy
constexpr uint32_t kSiteWgmma = 0xfffffff3u;    // a warpgroup's product
constexpr uint32_t kSiteAtomic = 0xfffffff1u;   // a counter primitive
constexpr uint32_t kSiteBarrier = 0xfffffff2u;  // an mbarrier primitive

// Runs one launch to its end. Race mode appends at most max_reports distinct races, by kind and pair of
// sites, to `races`. `names` and `races` may be null.
//
// Errors:
// - bad options
// - a misused primitive, with worker, thread and task
// - a deadlock: nothing can run, although time passed every deadline
// - a livelock: deadlines pass without end
// - a thread that runs on without a wait
//
// Messages of deadlocks and livelocks list what each worker's threads wait for.
Result<EmulatorStats> emulate(const KernelCall& kernel, const MkSession* session, const MkStep* step,
                              const EmulatorOptions& options, const EmulatorNames* names,
                              std::vector<RaceReport>* races);

// Returns the name and address of every primitive and race hook, for a JIT.
std::vector<std::pair<const char*, void*>> emulator_symbols();

}  // namespace mkrt
